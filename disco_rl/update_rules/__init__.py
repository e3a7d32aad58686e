"""Update rules: the discovered one and hand-made baselines."""
