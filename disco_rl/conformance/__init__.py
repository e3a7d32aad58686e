"""Numbers for other implementations to check against: cases and a checker."""
