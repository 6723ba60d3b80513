"""Generates the JSON Schema and the TypeScript types of agent events from their Python dataclasses.

    python labextension/generate_types.py

writes `schema/events.schema.json`, the events as they are stored and subscribed to, and
`src/model/events.generated.ts`, the same events as the browser receives them: fields that it may not be sent are
optional, and `display` is added. The messages of the JupyterLab extension become
`src/lab/kernel/protocol.generated.ts`. `build.py` runs this first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from planck_nb.agent import events
from planck_nb.ai import messages
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.lab import protocol
from planck_nb.jupyter.live.browser_events import DISPLAYS, OMITTED
from planck_nb.jupyter.live.question_display import QuestionDisplay

HERE = Path(__file__).resolve().parent
SCHEMA = HERE / "schema" / "events.schema.json"
TYPES = HERE / "src" / "model" / "events.generated.ts"
LAB_TYPES = HERE / "src" / "lab" / "kernel" / "protocol.generated.ts"
COMMAND = "python labextension/build.py"

_EVENTS: tuple[type[events.EventBase], ...] = get_args(events.AgentEvent)
_BASE = [field.name for field in fields(events.EventBase)]
_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_HEADER = f"""/**
 * Agent events as the browser receives them. Generated from `planck_nb/agent/events.py` by `{COMMAND}`;
 * do not edit.
 *
 * Optional fields are part of the event and may be absent because a live view is not sent them.
 * `display` is added for the browser.
 */
"""


_LAB_HEADER = f"""/**
 * The messages between a kernel and a page. Generated from `planck_nb/jupyter/lab/protocol.py` by `{COMMAND}`;
 * do not edit.
 */
"""


def tags() -> list[str]:
    """The `type` of each event."""
    return [str(kind.__dataclass_fields__["type"].default) for kind in _EVENTS]


def schema() -> JsonObject:
    """The JSON Schema of any agent event, without titles and descriptions."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[events.AgentEvent, Field(discriminator="type")])
    generated: JsonObject = _plain(adapter.json_schema(mode="serialization"))
    for definition in generated["$defs"].values():
        if "const" in definition["properties"].get("type", {}):
            definition["required"] = [*definition.get("required", ()), "type"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "AgentEvent", **generated}


def _plain(value: Any, *, named: bool = False) -> Any:  # noqa: ANN401 - JSON data
    """The schema without annotations; the keys of `named` objects are names, not keywords."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _plain(item, named=key in {"properties", "$defs"} and not named)
        for key, item in value.items()
        if named or key not in {"title", "description"}
    }


def types() -> str:
    """The TypeScript module."""
    definitions: dict[str, JsonObject] = dict(schema()["$defs"])
    for display in (*DISPLAYS.values(), QuestionDisplay):
        described = _plain(TypeAdapter(display).json_schema(mode="serialization"))
        definitions |= {**described.pop("$defs", {}), display.__name__: described}
    names = [kind.__name__ for kind in _EVENTS]
    some = definitions[names[0]]["properties"]
    parts = [_HEADER, _interface("EventBase", [_field(events.EventBase, name, some[name]) for name in _BASE])]
    for kind in _EVENTS:
        members = list(_members(kind, definitions.pop(kind.__name__), skipped=_BASE))
        if kind in DISPLAYS:
            members.append(f"readonly display?: {DISPLAYS[kind].__name__};")
        parts.append(_interface(f"{kind.__name__} extends EventBase", members))
    union = "\n".join(f"  | {name}" for name in names)
    parts.append(f"/** Any event of an agent. */\nexport type AgentEvent =\n{union};\n")
    for name, definition in sorted(definitions.items()):
        part: type[object] = getattr(messages, name, object)
        parts.append(_interface(name, list(_members(part, definition, skipped=()))))
    return "\n".join(parts)


def lab_types() -> str:
    """The TypeScript module of the messages of the JupyterLab extension."""
    kinds = [
        kind for kind in vars(protocol).values() if isinstance(kind, type) and kind.__module__ == protocol.__name__
    ]
    definitions: dict[str, JsonObject] = {}
    for kind in kinds:
        described = _plain(TypeAdapter(kind).json_schema(mode="serialization"))
        definitions |= {**described.pop("$defs", {}), kind.__name__: described}
    parts = [_LAB_HEADER, f"export const PROTOCOL = {protocol.PROTOCOL};\n"]
    parts += [f"export const {name} = '{getattr(protocol, name)}';" for name in ("TALK", "ASK", "HELLO")]
    parts += ["", *(_interface(name, list(_members(object, definitions[name], ()))) for name in definitions)]
    for name in ("FromKernel", "FromPage", "Question"):
        members = " | ".join(kind.__name__ for kind in get_args(getattr(protocol, name)))
        parts.append(f"export type {name} = {members};\n")
    return "\n".join(parts)


def _interface(heading: str, members: list[str]) -> str:
    body = "".join(f"  {member}\n" for member in members)
    return f"export interface {heading} {{\n{body}}}\n"


def _members(kind: type[object], definition: JsonObject, skipped: list[str] | tuple[str, ...]) -> Iterator[str]:
    for name, found in definition["properties"].items():
        if name not in skipped:
            yield _field(kind, name, found)


def _field(kind: type[object], name: str, found: JsonObject) -> str:
    mark = "?" if name in OMITTED.get(kind, ()) else ""
    return f"readonly {name}{mark}: {_type(found)};"


def _type(found: JsonObject) -> str:  # noqa: C901, PLR0911 - one case per keyword
    """The TypeScript type of a JSON Schema. Raises ValueError for a keyword that no event has used so far."""
    match found:
        case {"$ref": str(target)}:
            return target.removeprefix("#/$defs/")
        case {"const": value}:
            return _literal(value)
        case {"enum": [*values]}:
            return " | ".join(map(_literal, values))
        case {"anyOf": [*choices]} | {"oneOf": [*choices]}:
            return " | ".join(map(_type, choices))
        case {"type": "array", "prefixItems": [*items]}:
            return f"readonly [{', '.join(map(_type, items))}]"
        case {"type": "array", "items": items}:
            item = _type(items)
            return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"
        case {"type": "object", "additionalProperties": True}:
            return "Readonly<Record<string, unknown>>"
        case {"type": "object", "additionalProperties": values}:
            return f"Readonly<Record<string, {_type(values)}>>"
        case {"type": str(name)} if name in _SCALARS:
            return _SCALARS[name]
        case {} if not set(found) - {"default"}:
            return "unknown"
        case _:
            raise ValueError(f"generate_types.py has no TypeScript type for {found}; add a case to _type.")


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)


@cache
def rendered() -> dict[Path, str]:
    """The content of each generated file."""
    return {SCHEMA: json.dumps(schema(), indent=2) + "\n", TYPES: types(), LAB_TYPES: lab_types()}


if __name__ == "__main__":
    for path, text in rendered().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
