"""Off-policy value targets, value losses and the critic."""
