"""Agent networks, action models, and the meta-network."""
