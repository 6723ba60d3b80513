"""The saved output for a run: HTML, Markdown and plain text."""
