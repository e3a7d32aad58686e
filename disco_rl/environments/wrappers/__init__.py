"""Wrappers that make batched environments from single ones."""
