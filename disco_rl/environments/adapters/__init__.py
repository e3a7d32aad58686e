"""Adapters for environments of other packages."""
