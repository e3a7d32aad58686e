"""Rules as files: their format, where they are stored, loading and saving."""
