"""Wrappers that batch single streams, or check environments."""
