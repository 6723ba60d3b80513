"""The JSON Schema of team templates, which lets editors complete and check them.

`team.schema.json` beside this module is what `template_schema` returns; `write_schema` writes it after a change of the
fields.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from docstring_parser import parse as parse_docstring

from planck_nb.agent.identity import Grants
from planck_nb.agent.limits import WHOLE_LIMITS, Limits
from planck_nb.ai.models import LEVELS
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.request import Options
from planck_nb.base.json_types import JsonObject
from planck_nb.teams.member_fields import MAX_DESCRIPTION, MAX_MODEL, MAX_NAME
from planck_nb.teams.spec import AgentSpec
from planck_nb.teams.template import MAX_MEMBERS

SCHEMA_FILE = Path(__file__).with_name("team.schema.json")
"""The file with the schema; `"$schema"` of a TEAM.json may name it."""

_Dataclass: TypeAlias = type[AgentSpec] | type[Options] | type[Limits] | type[Grants]

_TEXTS: JsonObject = {"type": "array", "items": {"type": "string", "minLength": 1}}


def template_schema() -> JsonObject:
    """Return the JSON Schema of a team template, in either of its forms.

    Returns:
        A schema of draft 2020-12. It is stricter than reading: what reading leaves out with a reason in the report does
        not match.

    Example:
        >>> template_schema()["$defs"]["member"]["required"]
        ['type', 'provider', 'model_id']
    """
    members = {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_MEMBERS,
        "items": {"$ref": "#/$defs/member"},
        "description": "The members of the team, exactly one of which orchestrates.",
    }
    team = _object(
        {
            "$schema": {"type": "string", "description": "The address of this schema, for editors."},
            "name": {"type": "string", "description": "The name of the team."},
            "description": {"type": "string", "description": "What the team is for."},
            "members": members,
        },
        required=["members"],
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Team of agents",
        "description": "A template of a team for planck_nb: an object with members, or an array of members.",
        "oneOf": [team, members],
        "$defs": {"member": _member()},
    }


def _member() -> JsonObject:
    properties: dict[str, JsonObject] = {
        "type": _line(MAX_NAME),
        "provider": {"anyOf": [{"enum": REGISTRY.builtin_providers()}, _line(MAX_NAME)]},
        "model_id": _line(MAX_MODEL),
        "name": {"type": ["string", "null"], "maxLength": MAX_NAME},
        "description": {"type": ["string", "null"], "maxLength": MAX_DESCRIPTION},
        "system_prompt": {"type": ["string", "null"]},
        "tools": _TEXTS,
        "skills": _TEXTS,
        "opts": _described(Options, _options()),
        "base_url": {"type": ["string", "null"], "pattern": "^(https?://.+)?$"},
        "compactor": {"type": ["string", "null"]},
        "role": {"enum": ["orchestrator", "worker"]},
        "grants": _described(Grants, {item.name: _TEXTS for item in fields(Grants)}),
        "limits": _described(Limits, _limits()),
    }
    described = _described(AgentSpec, properties, required=["type", "provider", "model_id"])
    described["properties"]["system_prompt"]["description"] += (
        " If it ends in .md or .txt, it is the path of a file with the text, relative to the folder of the template."
    )
    return described


def _options() -> dict[str, JsonObject]:
    return {
        "max_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0},
        "top_p": {"type": "number", "minimum": 0, "maximum": 1},
        "stop": {"anyOf": [_TEXTS, _line()]},
        "thinking": {"enum": list(LEVELS)},
        "tool_choice": _line(),
        "output": {"type": "object"},
        "extra": {"type": "object"},
    }


def _limits() -> dict[str, JsonObject]:
    return {
        name: {"type": ["integer" if name in WHOLE_LIMITS else "number", "null"], "minimum": 0}
        for name in Limits().as_dict()
    }


def _line(longest: int | None = None) -> JsonObject:
    bound = {} if longest is None else {"maxLength": longest}
    return {"type": "string", "pattern": "\\S", **bound}


def _described(kind: _Dataclass, properties: dict[str, JsonObject], required: list[str] | None = None) -> JsonObject:
    """An object whose properties have the descriptions of the fields of a class."""
    params = parse_docstring(kind.__doc__ or "").params
    found = {item.arg_name: " ".join((item.description or "").replace("None", "null").split()) for item in params}
    described: dict[str, Any] = {name: {**schema, "description": found[name]} for name, schema in properties.items()}
    return _object(described, required)


def _object(properties: dict[str, Any], required: list[str] | None = None) -> JsonObject:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def schema_text() -> str:
    """The content of `SCHEMA_FILE`."""
    return json.dumps(template_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema() -> None:
    """Write `SCHEMA_FILE`."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
