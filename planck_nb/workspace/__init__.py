"""The composition root: the only place that wires configuration, sessions and agents together."""
