"""What one sees of a run while it goes on, and what one can do in it."""
