"""One agent's life as pure functions: act, store, sample, learn."""
