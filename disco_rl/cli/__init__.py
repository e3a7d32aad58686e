"""The command line, `disco-rl`."""
