"""The authors' side, in the sidecar's own process with `mcp` alone."""
