"""Runs long work and writes its results: the only place that writes files."""
