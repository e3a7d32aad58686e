"""Looks inside a rule: what its predictions mean, and what its targets need."""
