"""Shared foundations: errors, ids, the event log, async helpers.

Imports nothing else from the project.
"""
