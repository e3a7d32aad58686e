"""Batched environments that reset automatically."""
