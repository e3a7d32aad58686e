"""Decides every setting before a run starts."""
