"""Families of random tasks in JAX, on which rules are discovered."""
