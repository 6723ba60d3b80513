"""What a model reads of a result with structured content: everything, and nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import CallToolResult, ContentBlock, TextContent

from planck_nb.base.errors import ToolError
from planck_nb.sidecars.mcp_client.offers.results import output_of

RIVERS = {"rivers": [{"name": "Rhine", "km": 1233}, {"name": "Danube", "km": 2850}]}


def read(text: str, structured: Any, *, failed: bool = False) -> str:
    content: list[ContentBlock] = [TextContent(type="text", text=text)] if text else []
    return output_of(CallToolResult(content=content, structured_content=structured, is_error=failed)).text


@pytest.mark.parametrize(
    ("text", "structured", "added"),
    [
        # A summary: https://github.com/MoonshotAI/kimi-code/issues/2554, https://github.com/usememos/memos/issues/6226
        ("2 rivers.", RIVERS, RIVERS),
        ("list_rivers completed.", RIVERS, RIVERS),
        # https://github.com/anomalyco/opencode/issues/38923
        ("2 items", {"count": 2, "items": ["a-17", "b-18"]}, {"items": ["a-17", "b-18"]}),
        ("Rhine: 1233 km", RIVERS, RIVERS),
        ("Checked.", {"open": False}, {"open": False}),
        ("", {"open": False}, {"open": False}),
        ("Searched.", ["Rhine"], ["Rhine"]),
        # The same: https://github.com/MoonshotAI/kimi-code/pull/3234, https://github.com/anthropics/claude-code/issues/55677
        (json.dumps(RIVERS), RIVERS, None),
        (json.dumps(RIVERS, indent=2), RIVERS, None),
        ("| name | km |\n|---|---|\n| Rhine | 1,233 |\n| Danube | 2,850 |", RIVERS, None),
        ("The Danube has 2850 km, the Rhine\n1233.0.", RIVERS, None),
        ("Saved.", {"success": True, "message": "Saved."}, None),
        ('{"name": "Stra\\u00dfe"}', {"name": "Straße"}, None),
        ("5", {"result": 5}, None),
        ("It is open: yes", {"open": True}, None),
        ("Nothing.", {}, None),
        ("Nothing.", {"note": "", "next": None}, None),
        ("x" * 200_000, RIVERS, None),
    ],
)
def test_structured_content_is_added_where_it_says_more(text: str, structured: Any, added: Any) -> None:
    shown = read(text, structured)
    if added is None:
        assert shown.startswith(text[:100])
        assert shown == read(text, None)
    else:
        assert shown == "\n".join(filter(None, (text, json.dumps(added, ensure_ascii=False))))


def test_a_failure_has_its_details() -> None:
    with pytest.raises(ToolError) as caught:
        read("The order was refused.", {"code": "E17", "field": "day"}, failed=True)
    assert str(caught.value) == 'The order was refused.\n{"code": "E17", "field": "day"}'
