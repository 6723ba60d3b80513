"""Ways to start or reach sidecars, and where they are read."""
