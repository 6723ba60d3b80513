"""What servers send in place of MCP, as people reported it; add a case to a list, and it is tested."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ID = "@id@"
"""Stands for the id of the request."""


@dataclass(frozen=True)
class Answer:
    """An answer to a call.

    Args:
        source: A public report about such an answer.
        raw: What the server sends; a value is written as JSON.
        text: What the model reads.
        error: What the error says, for one that cannot be used.
        only: The transports on which there is such an answer; all by default.
    """

    source: str
    raw: Any
    text: str = ""
    error: str = ""
    only: Sequence[str] = ("stdio", "http", "sse")

    def body(self, number: object) -> bytes:
        text = self.raw if isinstance(self.raw, str | bytes) else json.dumps(self.raw)
        data = text if isinstance(text, bytes) else text.encode()
        return data.replace(b'"@id@"', json.dumps(number).encode())


@dataclass(frozen=True)
class Listed:
    """A list of tools.

    Args:
        source: A public report about such a list.
        pages: The result for each cursor, the first one for none; an error's message instead of an object fails.
        tools: The names of the tools which can be used, sorted.
        left_out: Words about each other tool.
        start: Fields of the answer to `initialize`.
    """

    source: str
    pages: Mapping[str | None, Any]
    tools: Sequence[str] = ("ok",)
    left_out: Sequence[str] = ()
    start: Mapping[str, Any] = field(default_factory=dict)


def _result(result: object, **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": ID, "result": result, **more}


def _content(*blocks: object, **more: object) -> dict[str, object]:
    return _result({"content": list(blocks), **more})


def _text(text: object) -> dict[str, object]:
    return {"type": "text", "text": text}


_GOOD = json.dumps(_content(_text("fine")))
_IMAGE = {"type": "image", "data": "AAAA"}

ANSWERS: dict[str, Answer] = {
    # Texts which are no Unicode, or no JSON
    "half of an emoji": Answer(
        "https://github.com/inkeep/open-knowledge/issues/472", _content(_text("cut \ud83d")), "cut ?"
    ),
    "the other half, in a name": Answer(
        "https://github.com/microsoft/playwright-mcp/issues/1410",
        _content(structuredContent={"\udee0": "saw \udee0"}),
        "saw ?",
    ),
    "another encoding": Answer(
        "https://github.com/anomalyco/opencode/issues/24414",
        _GOOD.replace("fine", "caf@").encode().replace(b'@"', b'\xe9"'),
        "caf",
    ),
    "control characters": Answer(
        "https://github.com/anomalyco/opencode/issues/24414", _GOOD.replace("fine", "a\x01b\tc"), "a"
    ),
    "a mark of the byte order": Answer("https://github.com/anomalyco/opencode/issues/24414", "\ufeff" + _GOOD, "fine"),
    "a number that is none": Answer(
        "https://github.com/modelcontextprotocol/python-sdk/issues/1144",
        json.dumps(_content(_text("mean:"), structuredContent={"mean": float("nan"), "n": 17})),
        "17",
    ),
    "the end is missing": Answer(
        "https://github.com/MemPalace/mempalace/issues/2231",
        json.dumps(_content(_text("fine")))[:-3].replace('"result"', '"result" ', 1),
        error="it is not JSON-RPC",
    ),
    "the end and the id are missing": Answer(
        "https://github.com/MemPalace/mempalace/issues/2231",
        '{"jsonrpc":"2.0","result":{"content":[{"type":"te',
        error="it is not JSON-RPC",
        only=("stdio", "http", "sse"),
    ),
    "a page for people": Answer(
        "https://github.com/modelcontextprotocol/python-sdk/issues/1144",
        "<html>Bad gateway</html>",
        error="it is not JSON-RPC: <html>",
        only=("http",),
    ),
    "nothing": Answer(
        "https://github.com/modelcontextprotocol/python-sdk/issues/1144", "", error="it is empty", only=("http",)
    ),
    # Envelopes
    "null": Answer(
        "https://github.com/modelcontextprotocol/java-sdk/issues/506", _result(None), error="its result is null"
    ),
    "a text": Answer(
        "https://github.com/Jason-Vaughan/Medusa/issues/26", _result("done"), error="its result is a text"
    ),
    "a list": Answer(
        "https://github.com/gensecaihq/Wazuh-MCP-Server/issues/59", _result([1]), error="its result is a list"
    ),
    "neither result nor error": Answer(
        "https://github.com/helidon-io/helidon-mcp/pull/152",
        {"jsonrpc": "2.0", "id": ID},
        error="neither a result nor an error",
    ),
    "an error that is a text": Answer(
        "https://github.com/MemPalace/mempalace/issues/2231",
        {"jsonrpc": "2.0", "id": ID, "error": "no licence"},
        error="no licence",
    ),
    "an error without a code": Answer(
        "https://github.com/MemPalace/mempalace/issues/2231",
        {"jsonrpc": "2.0", "id": ID, "error": {"message": "no licence"}},
        error="no licence",
    ),
    "an error of no request": Answer(
        "https://github.com/helidon-io/helidon-mcp/issues/65",
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no licence"}},
        error="no licence",
    ),
    "an error of another request": Answer(
        "https://github.com/modelcontextprotocol/python-sdk/issues/1144",
        {"jsonrpc": "2.0", "id": "xxx", "error": {"code": -32603, "message": "no licence"}},
        error="no licence",
    ),
    "an error of request 0": Answer(
        "https://github.com/BaseIntelligence/bounty-challenge/issues/51392",
        {"jsonrpc": "2.0", "id": 0, "error": {"code": -32700, "message": "no licence"}},
        error="no licence",
    ),
    "no mark of JSON-RPC": Answer(
        "https://github.com/Quantum3-Labs/ARBuilder/pull/2", {"id": ID, "result": {"content": [_text("fine")]}}, "fine"
    ),
    "in a list, with no error": Answer(
        "https://github.com/gensecaihq/Wazuh-MCP-Server/issues/59", [_content(_text("fine")) | {"error": None}], "fine"
    ),
    "indented": Answer(
        "https://github.com/BaseIntelligence/bounty-challenge/issues/52020",
        json.dumps(_content(_text("fine")), indent=2),
        "fine",
    ),
    "after a text": Answer(
        "https://github.com/microsoft/azure-devops-mcp/issues/147", "Server version 2: " + _GOOD, "fine"
    ),
    "two on one line": Answer(
        "https://github.com/ZubeidHendricks/youtube-mcp-server/issues/18",
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}' + _GOOD,
        "fine",
    ),
    "an empty list": Answer("https://github.com/cristianuibar/bricks-mcp/issues/45", _result([]), "(no result)"),
    # Results
    "plain text as content": Answer(
        "https://github.com/lastmile-ai/mcp-agent/pull/48", _result({"content": "fine"}), "fine"
    ),
    "one block as content": Answer(
        "https://github.com/decocms/studio/pull/1275", _result({"content": _text("fine")}), "fine"
    ),
    "no content": Answer(
        "https://github.com/samihalawa/mcp-server-smtp/pull/4",
        _result({"success": True, "configs": ["home"]}),
        '{"success": true, "configs": ["home"]}',
    ),
    "content null": Answer(
        "https://github.com/seuros/action_mcp/issues/181",
        _result({"content": None, "structuredContent": {"greeting": "hello"}}),
        '{"greeting": "hello"}',
    ),
    "content of a text": Answer("https://github.com/mark3labs/mcp-go/pull/819", _content("fine", None, 7), "fine\n7"),
    "the kind json": Answer(
        "https://github.com/ElliotPadfield/unpaywall-mcp/issues/4",
        _content(_text("found"), {"type": "json", "json": {"doi": "10.1/x"}}),
        'found\n[json] {"json": {"doi": "10.1/x"}}',
    ),
    "a media type as the kind": Answer(
        "https://github.com/waldzellai/waldzell-mcp/issues/44",
        _content(_text("found"), {"type": "application/json", "text": "[1]"}),
        'found\n[application/json] {"text": "[1]"}',
    ),
    "no kind": Answer("https://github.com/waldzellai/waldzell-mcp/issues/44", _content({"text": "fine"}), "fine"),
    "an image of no type": Answer(
        "https://github.com/GDKsoftware/Delphi-MCP-Server/pull/30", _content(_text("found"), _IMAGE), "found\n[image]"
    ),
    "a text null": Answer(
        "https://github.com/waldzellai/waldzell-mcp/issues/44", _content(_text(None), _text({"a": 1})), '{"a": 1}'
    ),
    "a failure as a word": Answer(
        "https://github.com/tsedio/tsed/pull/3244", _content(_text("no licence"), isError="yes"), error="no licence"
    ),
    "structured content that is a list": Answer(
        "https://github.com/epam/statgpt-backend/issues/691",
        _content(_text("2 found"), structuredContent=["Rhine", "Danube"]),
        '2 found\n["Rhine", "Danube"]',
    ),
    "odd notes": Answer(
        "https://github.com/logiscape/mcp-sdk-php/issues/1",
        _content({**_text("fine"), "annotations": []}, _meta=[]),
        "fine",
    ),
}


def _tool(name: object = "odd", **more: object) -> dict[str, object]:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return {"name": name, "description": "Does it.", "inputSchema": schema, **more}


def _one(tool: object, **more: object) -> dict[str | None, Any]:
    return {None: {"tools": [tool, _tool("ok")], **more}}


def _schema(**schema: object) -> dict[str | None, Any]:
    return _one(_tool(inputSchema=schema))


LISTS: dict[str, Listed] = {
    "no schema": Listed("https://github.com/mastra-ai/mastra/issues/21859", _one({"name": "odd"}), ("odd", "ok")),
    "a schema that is null": Listed(
        "https://github.com/mastra-ai/mastra/issues/21859", _one(_tool(inputSchema=None)), ("odd", "ok")
    ),
    "a reference as the schema": Listed(
        "https://github.com/cognizant-ai-lab/neuro-san/issues/1341",
        _schema(**{"$ref": "#/$defs/Chat", "$defs": {"Chat": {"properties": {"q": {"type": "string"}}}}}),
        ("odd", "ok"),
    ),
    "null as a tool": Listed(
        "https://github.com/cognizant-ai-lab/neuro-san/issues/1341", _one(None), left_out=("number 1", "it is null")
    ),
    "alternatives as the schema": Listed(
        "https://github.com/anthropics/claude-code/issues/88049",
        _schema(anyOf=[{"type": "object", "properties": {"a": {"type": "string"}}}]),
        ("odd", "ok"),
    ),
    "a text as the argument": Listed(
        "https://github.com/sandialabs/atlas-ui-3/issues/727",
        _schema(type="string"),
        left_out=("odd", "its arguments are not a JSON object"),
    ),
    "an empty list of properties": Listed(
        "https://github.com/use-novamira/novamira/issues/82",
        _schema(type="object", properties=[], required=[]),
        ("odd", "ok"),
    ),
    "the type int": Listed(
        "https://github.com/Kuadrant/mcp-gateway/pull/689",
        _schema(type="object", properties={"n": {"type": "int"}}),
        ("odd", "ok"),
    ),
    "required in a wrong place": Listed(
        "https://github.com/mastra-ai/mastra/issues/23731",
        _schema(type="object", properties={"coin": {"type": "string"}, "required": ["coin"]}),
        ("odd", "ok"),
    ),
    "required null": Listed(
        "https://github.com/coder/coder/issues/23538",
        _schema(type="object", properties={"n": {"type": "string", "enum": None}}, required=None),
        ("odd", "ok"),
    ),
    "required true": Listed(
        "https://github.com/appcypher/awesome-mcp-servers/pull/741",
        _schema(type="object", properties={"n": {"type": "string", "required": True}}),
        ("odd", "ok"),
    ),
    "a schema of nonsense": Listed(
        "https://github.com/Kuadrant/mcp-gateway/pull/689",
        _schema(type="object", properties={"n": {"type": "nonsense"}}),
        left_out=("odd", "its schema is not valid"),
    ),
    "no name": Listed(
        "https://github.com/sandialabs/atlas-ui-3/issues/727",
        _one(_tool(None)),
        left_out=("number 1", "its name is null"),
    ),
    "the same name twice": Listed(
        "https://github.com/openai/openai-agents-python/pull/4086",
        {None: {"tools": [_tool("ok"), _tool("ok")]}},
        left_out=("ok", "there is another one of this name"),
    ),
    "odd fields": Listed(
        "https://github.com/modelcontextprotocol/csharp-sdk/issues/696",
        _one(
            _tool(annotations={"title": 5, "destructiveHint": "yes"}, outputSchema="any", _meta=[], title=7, icons="x")
        ),
        ("odd", "ok"),
    ),
    "a table": Listed(
        "https://github.com/decocms/studio/pull/1275",
        {None: {"tools": {"odd": {"inputSchema": {}}, "ok": {}}}},
        ("odd", "ok"),
    ),
    "null": Listed("https://github.com/coder/coder/issues/23538", {None: {"tools": None}}, ()),
    "an empty cursor at the end": Listed(
        "https://github.com/modelcontextprotocol/java-sdk/issues/575",
        {None: {"tools": [_tool("ok")], "nextCursor": ""}, "": {"tools": [_tool("ok")], "nextCursor": ""}},
    ),
    "an odd tool on a page that is repeated": Listed(
        "https://github.com/modelcontextprotocol/java-sdk/issues/575",
        {cursor: {"tools": [_tool("ok"), _tool(None)], "nextCursor": ""} for cursor in (None, "")},
        left_out=("number 2", "its name is null"),
    ),
    "an empty cursor that is refused": Listed(
        "https://github.com/ChesterRa/cccc/pull/50",
        {None: {"tools": [_tool("ok")], "nextCursor": ""}, "": "Invalid cursor"},
    ),
    "an empty cursor in the middle": Listed(
        "https://github.com/PrefectHQ/fastmcp/pull/5026",
        {None: {"tools": [_tool("ok")], "nextCursor": ""}, "": {"tools": [_tool("odd")]}},
        ("odd", "ok"),
    ),
    "a cursor that stands still": Listed(
        "https://github.com/DeusData/codebase-memory-mcp/issues/1247",
        {None: {"tools": [_tool("ok")], "nextCursor": "1"}, "1": {"tools": [_tool("ok")], "nextCursor": "1"}},
    ),
    "a page that fails": Listed(
        "https://github.com/modelcontextprotocol/csharp-sdk/issues/1072",
        {None: {"tools": [_tool("ok")], "nextCursor": "1"}, "1": "out of memory"},
    ),
    "empty lists for objects": Listed(
        "https://github.com/logiscape/mcp-sdk-php/issues/1",
        _one(_tool(annotations=[], _meta=[])),
        ("odd", "ok"),
        start={"capabilities": {"tools": [], "prompts": None, "experimental": []}, "_meta": []},
    ),
    "an unknown server": Listed(
        "https://github.com/logiscape/mcp-sdk-php/issues/1",
        _one(_tool()),
        ("odd", "ok"),
        start={"capabilities": [], "serverInfo": None, "instructions": 5},
    ),
}


PROMPTS: dict[str, tuple[Any, list[str], list[str]]] = {
    "good and bad": (
        [{"name": "ask", "arguments": [{"name": "topic"}, "odd", {"name": 5}]}, {"description": "no name"}, "odd"],
        ["ask(topic)"],
        ["prompt number 2: its name is missing", "prompt number 3: it is a text"],
    ),
    "a table": ({"ask": {"arguments": {"topic": {"required": True}}}}, ["ask(topic)"], []),
    "arguments null": ([{"name": "ask", "arguments": None, "description": 7}], ["ask()"], []),
    "an empty list for arguments": ([{"name": "ask", "arguments": {}}], ["ask()"], []),
    "null": (None, [], []),
}
"""Lists of prompts, with the usable ones and why others are left out."""

RESOURCES: dict[str, tuple[Any, list[str], list[str]]] = {
    "no name": ([{"uri": "a:1"}], ["a:1 a:1"], []),
    "no address": (
        [{"name": "notes"}, {"uri": "a:1", "name": "one"}],
        ["a:1 one"],
        ["resource notes: its uri is missing"],
    ),
    "odd fields": ([{"uri": "a:1", "name": "one", "size": "big", "mimeType": 5, "annotations": []}], ["a:1 one"], []),
    "the same twice": (
        [{"uri": "a:1", "name": "one"}, {"uri": "a:1", "name": "two"}],
        ["a:1 one"],
        ["resource a:1: there is another one of this name"],
    ),
    "null": (None, [], []),
}
"""Lists of resources, with the usable ones and why others are left out."""

PROMPT_RESULTS: dict[str, tuple[Any, str]] = {
    "plain text": ({"messages": [{"role": "user", "content": "Review it."}]}, "Review it."),
    "no role": ({"messages": [{"content": _text("Review it.")}]}, "Review it."),
    "system": ({"messages": [{"role": "system", "content": _text("Review it.")}]}, "Review it."),
    "a list of blocks": ({"messages": [{"role": "user", "content": [_text("Review"), _text("it.")]}]}, "Review|it."),
    "one message": ({"messages": {"role": "user", "content": _text("Review it.")}}, "Review it."),
    "an unknown kind": ({"messages": [{"role": "user", "content": {"type": "video"}}]}, "[video]"),
}
"""Filled prompts, and what is read of them."""

READ_RESULTS: dict[str, tuple[Any, str]] = {
    "no address": ({"contents": [{"text": "notes"}]}, "notes"),
    "one object": ({"contents": {"uri": "a:1", "text": "notes"}}, "notes"),
    "plain text": ({"contents": "notes"}, "notes"),
    "another name": ({"content": [{"uri": "a:1", "text": "notes"}]}, "notes"),
    "text that is an object": ({"contents": [{"uri": "a:1", "text": {"a": 1}}]}, '{"a": 1}'),
    "null beside text": ({"contents": [{"uri": "a:1", "text": "notes", "blob": None, "mimeType": None}]}, "notes"),
}
"""Resources, and what is read of them."""
