"""Agent networks, action models, and the rule's own network."""
