"""Example programs, each in one file."""
