"""For the kernel: starts sidecars, calls them and presents what they offer."""
