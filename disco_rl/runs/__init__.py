"""Runs: the run loop, run folders, checkpoints, metrics and pictures.

Only this package and `rule_zoo` write files.
"""
