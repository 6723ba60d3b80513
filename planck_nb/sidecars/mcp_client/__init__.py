"""The kernel's side: starts sidecars, calls them and presents their offers."""
