"""For the kernel: starts sidecars, calls them and presents what they offer."""

from planck_nb.sidecars.link.definitions import (
    PromptArgument,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
)
from planck_nb.sidecars.link.environment import SidecarEnvironment
from planck_nb.sidecars.link.fingerprint import fingerprint
from planck_nb.sidecars.link.link_settings import LinkCallbacks, LinkTiming
from planck_nb.sidecars.link.manager import Sidecars
from planck_nb.sidecars.link.mcp_servers import SpecReport, read_mcp_servers
from planck_nb.sidecars.link.questions import Answer, Question
from planck_nb.sidecars.link.sampling import SamplingReply, SamplingRequest
from planck_nb.sidecars.link.sidecar_link import SidecarLink
from planck_nb.sidecars.link.sidecar_spec import SidecarSpec
from planck_nb.sidecars.link.status import SidecarEvent, SidecarStatus

__all__ = [
    "Answer",
    "LinkCallbacks",
    "LinkTiming",
    "PromptArgument",
    "PromptDefinition",
    "Question",
    "ResourceDefinition",
    "SamplingReply",
    "SamplingRequest",
    "SidecarEnvironment",
    "SidecarEvent",
    "SidecarLink",
    "SidecarSpec",
    "SidecarStatus",
    "Sidecars",
    "SpecReport",
    "ToolDefinition",
    "fingerprint",
    "read_mcp_servers",
]
