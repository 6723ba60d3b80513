"""Finds models: in the generated catalogue, at servers, and among those that the user describes."""
