"""Sidecars: MCP servers that add tools, compactors and observers to the agents of a kernel.

`author` is for those who write one, `link` runs them from the kernel; `conventions` has the names that both share.
"""
