"""Adapters that make batched environments out of single ones."""
