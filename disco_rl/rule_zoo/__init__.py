"""Keeps trained rules as files."""
