"""Batched, self-resetting environments."""
