"""Meta-training: a rule is improved through the learning of its agents."""
