"""What is left of a run in the notebook: HTML, Markdown and text."""
