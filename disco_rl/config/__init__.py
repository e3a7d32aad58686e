"""Resolves all settings before a run starts."""
