"""Exports of a session, and imports."""
