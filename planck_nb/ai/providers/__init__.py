"""The providers, by name."""
