"""The JSON Schema of templates: it is the committed file, and agrees with what reading accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from planck_nb.teams import read_template, template_schema
from planck_nb.teams.member_fields import MEMBER_FIELDS
from planck_nb.teams.member_options import OPTION_NAMES
from planck_nb.teams.template import TEAM_FIELDS
from planck_nb.teams.template_schema import SCHEMA_FILE, schema_text

LEAD: dict[str, Any] = {"type": "orchestrator", "provider": "demo", "model_id": "demo"}


def test_the_committed_file_is_the_schema() -> None:
    remedy = 'python -c "from planck_nb.teams.template_schema import write_schema; write_schema()"'
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), f"run: {remedy}"


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(template_schema())


def test_the_schema_has_every_field() -> None:
    schema = template_schema()
    member = schema["$defs"]["member"]["properties"]
    assert set(member) == set(MEMBER_FIELDS)
    assert set(member["opts"]["properties"]) == set(OPTION_NAMES)
    assert set(schema["oneOf"][0]["properties"]) == set(TEAM_FIELDS)
    for table in (member, member["opts"]["properties"], member["limits"]["properties"], member["grants"]["properties"]):
        assert all(field["description"].endswith(".") for field in table.values())


TEMPLATES: list[tuple[object, bool]] = [
    ([LEAD], True),
    ({"members": [LEAD]}, True),
    ({"$schema": "team.schema.json", "name": "x", "description": "y", "members": [LEAD]}, True),
    (
        [
            {
                **LEAD,
                "name": "Lead",
                "system_prompt": "You lead.",
                "tools": ["read"],
                "skills": ["review"],
                "opts": {"temperature": 0.5, "stop": ["END"], "thinking": "high", "extra": {"seed": 1}},
                "base_url": "http://127.0.0.1:8080",
                "compactor": None,
                "role": "orchestrator",
                "grants": {"tools": [], "models": ["demo:demo"]},
                "limits": {"rounds": 5, "cost": None},
            }
        ],
        True,
    ),
    ([], False),
    ({}, False),
    ({"members": [LEAD], "titel": "x"}, False),
    ([{**LEAD, "type": ""}], False),
    ([{"type": "orchestrator", "provider": "demo"}], False),
    ([{**LEAD, "colour": "red"}], False),
    ([{**LEAD, "tools": "read"}], False),
    ([{**LEAD, "tools": [1]}], False),
    ([{**LEAD, "opts": {"tempo": 1}}], False),
    ([{**LEAD, "opts": {"top_p": 2}}], False),
    ([{**LEAD, "role": "boss"}], False),
    ([{**LEAD, "grants": {"tool": []}}], False),
    ([{**LEAD, "limits": {"rounds": 1.5}}], False),
    ([{**LEAD, "base_url": "localhost:8080"}], False),
]


@pytest.mark.parametrize(("data", "valid"), TEMPLATES)
def test_the_schema_and_strict_reading_agree(data: object, valid: bool, tmp_path: Path) -> None:
    assert Draft202012Validator(template_schema()).is_valid(data) == valid
    (tmp_path / "TEAM.json").write_text(json.dumps(data))
    if valid:
        read_template(tmp_path, strict=True)
    else:
        with pytest.raises(Exception, match=r"TEAM\.json"):
            read_template(tmp_path, strict=True)
