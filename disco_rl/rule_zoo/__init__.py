"""Loads, saves and finds rules as files."""
