"""A plain learner step, which the fast ones are measured and tested against.

It is written as the mathematics reads: outputs of all actions at once, one pass
for each network, every input of the rule transformed by itself, and the whole
loss inside `jax.grad`. Parameters and states are those of the library, so both
can start from the same state and must arrive at the same one. Optimiser, value
targets and single input transforms are the library's own, as they have no
faster form.
"""
