"""Fakes for tests: scripted models."""
