"""Off-policy values and the critic of meta-training."""
