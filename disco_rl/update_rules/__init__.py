"""Update rules: the discovered one and hand-designed baselines."""
