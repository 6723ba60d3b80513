"""LLM agents that live inside the Jupyter kernel."""
