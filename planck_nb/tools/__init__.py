"""Concrete tools: files, the shell, and commands described by TOOL.json."""
