"""A sidecar whose tools ask the person, for tests of notebooks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from planck_nb.sidecars import Sidecar, elicit

sidecar = Sidecar("asker")

FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "branch": {"type": "string", "title": "Branch", "description": "What to deploy", "default": "main"},
        "copies": {"type": "integer", "title": "Copies", "minimum": 1, "maximum": 9},
        "dry": {"type": "boolean", "title": "Dry run", "default": True},
        "place": {"type": "string", "enum": ["eu", "us"], "enumNames": ["Europe", "United States"]},
        "note": {"type": "string", "title": "No\u202ete"},
    },
    "required": ["branch", "copies"],
}

COMMAND = [sys.executable, "-m", "planck_nb.sidecars", "support.asking_sidecar"]


def describe(folder: Path) -> None:
    """Describe the sidecar in the user's own file in `folder/.planck`, which needs no trust."""
    file = folder / ".planck" / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    tests = str(Path(__file__).parents[1])
    server = {"command": COMMAND[0], "args": COMMAND[1:], "env": {"PYTHONPATH": f"{Path(tests).parent}:{tests}"}}
    file.write_text(json.dumps({"mcpServers": {"asker": server}}))


@sidecar.tool
async def deploy(name: str) -> str:
    """Deploy a service, after asking how."""
    answer = await elicit(f"How is {name} to be deployed\u202e?", FIELDS)
    return f"{answer.action} {json.dumps(dict(answer.content), sort_keys=True)}"
