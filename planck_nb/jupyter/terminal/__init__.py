"""Terminals: the live view as lines, and typed answers instead of clicks."""
