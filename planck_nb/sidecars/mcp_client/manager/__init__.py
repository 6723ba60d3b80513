"""A notebook's sidecars."""
