"""Runs: the run loop, run folders, checkpoints, metrics and pictures."""
