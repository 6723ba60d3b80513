"""The saved output of a run: its transcript as HTML, Markdown and plain text."""
