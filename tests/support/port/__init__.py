"""A naive implementation of the rule in NumPy, with loops, for conformance.

It is written from the equations of the cases, shares no code with the library,
and has switches for known mistakes.
"""
