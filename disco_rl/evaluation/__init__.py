"""Trains fresh agents with a fixed rule."""
