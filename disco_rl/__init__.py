"""Reinforcement learning with rules that are discovered, not designed.

Import by module: `from disco_rl import agent`, `from disco_rl.update_rules
import disco`. ARCHITECTURE.md says what is where.
"""

__version__ = '0.1.0'
