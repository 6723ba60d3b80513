"""What sidecars offer, and their results."""
