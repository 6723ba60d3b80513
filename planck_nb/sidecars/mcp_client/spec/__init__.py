"""How sidecars are started or reached, and where that is read."""
