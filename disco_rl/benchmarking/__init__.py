"""Benchmarks: rules × environments × seeds, and statistics of their scores."""
