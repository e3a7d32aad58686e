"""Several processes that make one run, by JAX's multi-process runtime.

`runtime.py` connects them and starts JAX's runtime, `group.py` lets them agree
and ends them together, and `links.py` carries their messages. `arrays.py` makes
arrays over all their devices, which travel by JAX's own collectives.
"""
