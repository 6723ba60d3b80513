"""Tools: what they are, how an agent calls them, and how their results become text and images for the model."""
