"""A sidecar's connection, and calls over it."""
