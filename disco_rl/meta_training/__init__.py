"""Meta-training: improves a rule by the gradient of its agents' learning."""
