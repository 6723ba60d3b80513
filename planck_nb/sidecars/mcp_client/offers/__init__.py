"""Offers from sidecars, and their results."""
