"""Evaluation: trains fresh agents with a fixed rule."""
