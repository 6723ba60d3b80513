"""For authors of sidecars: runs in the sidecar's own process, with nothing installed but `mcp`."""
