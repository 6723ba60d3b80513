"""Terminals, where nothing can be clicked: the live view as lines, and approvals and questions by typed answers."""
