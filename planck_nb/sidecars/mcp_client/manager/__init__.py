"""A notebook's sidecars."""

from planck_nb.sidecars.mcp_client.manager.manager import Sidecars

__all__ = ["Sidecars"]
