"""Malformed answers and lists cost themselves only, over every transport, and never the time limit of a call."""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sidecars.mcp_client.transports.malformed import (
    ANSWERS,
    LISTS,
    PROMPT_RESULTS,
    PROMPTS,
    READ_RESULTS,
    RESOURCES,
    Answer,
    Listed,
)
from support.http_servers import app_server
from support.sidecar_links import FAST, SERVERS

from planck_nb.base.errors import PlanckError
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

pytestmark = pytest.mark.process

TRANSPORTS = ("stdio", "http", "sse")
OTHER = {"jsonrpc": "2.0", "id": "@id@", "error": {"code": -32601, "message": "no such method"}}


def started(**more: Any) -> dict[str, Any]:
    info = {"name": "odd", "version": "1"}
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info, **more}
    return {"jsonrpc": "2.0", "id": "@id@", "result": result}


def raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@asynccontextmanager
async def serving(transport: str, answers: Mapping[str, bytes], folder: Path) -> AsyncIterator[SidecarSpec]:
    """The spec of a server which sends these bytes."""
    if transport == "stdio":
        file = folder / "answers.json"
        file.write_text(json.dumps({key: b64encode(body).decode() for key, body in answers.items()}))
        yield SidecarSpec("odd", command=sys.executable, args=("-I", "-S", str(SERVERS / "raw_server.py"), str(file)))
        return

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (event := await receive()).get("more_body") or not body:
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        message = json.loads(body or b"{}")
        if scope["method"] != "POST" or "id" not in message:
            await send({"type": "http.response.start", "status": 405 if not body else 202, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        params = message.get("params", {})
        key = f"{message['method']} {params.get('name', params.get('cursor', params.get('uri', 'first')))}"
        found = answers.get(key, answers["other"]).replace(b'"@id@"', json.dumps(message["id"]).encode())
        kind = b"application/json"
        if transport == "sse":
            kind = b"text/event-stream"
            found = b": hello\n\ndata: ping\n\n" + b"".join(b"data: " + line + b"\n" for line in found.split(b"\n"))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": found})

    async with app_server(app) as address:
        yield SidecarSpec("odd", url=f"{address}/mcp")


async def said(link: SidecarLink, name: str) -> str:
    async with asyncio.timeout(30):  # the call itself has 300 s
        try:
            return (await link.call(name, {})).text
        except PlanckError as error:
            return f"{type(error).__name__}: {error}"


def is_right(answer: Answer, said_text: str) -> bool:
    if answer.error:
        return answer.error in said_text and said_text.partition(":")[0] in ("SidecarError", "ToolError")
    return said_text.startswith(answer.text) if answer.text in ("a", "caf") else answer.text in said_text


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_malformed_answer_ends_its_call_by_itself(transport: str, tmp_path: Path) -> None:
    cases = {name: answer for name, answer in ANSWERS.items() if transport in answer.only}
    assert len(cases) >= 20
    listed = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in cases]}
    answers = {
        "other": raw(OTHER),
        "initialize first": raw(started()),
        "tools/list first": raw({"jsonrpc": "2.0", "id": "@id@", "result": listed}),
        **{f"tools/call {name}": answer.body("@id@") for name, answer in cases.items()},
    }
    async with serving(transport, answers, tmp_path) as spec:
        link = SidecarLink(spec, timing=FAST)
        await link.start()
        found = {name: await said(link, name) for name in cases}
        await link.stop()
    wrong = {name: text for name, text in found.items() if not is_right(cases[name], text)}
    assert wrong == {}
    assert not [text for text in found.values() if "pydantic" in text or "validation error" in text]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_of_a_malformed_list_what_is_valid_is_used_and_the_rest_is_named(transport: str, tmp_path: Path) -> None:
    wrong = {}

    async def check(name: str, case: Listed) -> None:
        answers = {"other": raw(OTHER), "initialize first": raw(started(**case.start))}
        for cursor, page in case.pages.items():
            key = "error" if isinstance(page, str) else "result"
            body = {"code": -32602, "message": page} if isinstance(page, str) else page
            answer = raw({"jsonrpc": "2.0", "id": "@id@", key: body})
            answers[f"tools/list {'first' if cursor is None else cursor}"] = answer
        (folder := tmp_path / name).mkdir()
        async with serving(transport, answers, folder) as spec:
            sidecars = Sidecars(cwd=folder, timing=FAST)
            sidecars.add(spec)
            [status] = await sidecars.start()
            found, sentences = sorted(tool.name for tool in sidecars.tools()), sidecars.notes()
            notes = " ".join(sorted(set(sentences)))
            await sidecars.aclose()
        if status.state != "connected" or found != [*case.tools] or any(part not in notes for part in case.left_out):
            wrong[name] = (status.reason, found, notes)
        elif len(set(sentences)) < len(sentences):
            wrong[name] = ("twice", found, " ".join(sentences))

    await asyncio.gather(*(check(name, case) for name, case in LISTS.items()))
    assert wrong == {}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_prompts_and_resources_are_used_item_by_item(transport: str, tmp_path: Path) -> None:
    def result(value: object) -> bytes:
        return raw({"jsonrpc": "2.0", "id": "@id@", "result": value})

    wrong = {}

    async def check(kind: str, name: str, value: Any, used: list[str], left_out: list[str]) -> None:
        answers = {
            "other": raw(OTHER),
            "initialize first": raw(started(capabilities={"prompts": {}, "resources": {}})),
            f"{kind}/list first": result({kind: value}),
        }
        (folder := tmp_path / f"{kind} {name}").mkdir()
        async with serving(transport, answers, folder) as spec:
            link = SidecarLink(spec, timing=FAST)
            await link.start()
            if kind == "prompts":
                found = [
                    f"{item.name}({', '.join(arg.name for arg in item.arguments)})"
                    for item in await link.list_prompts()
                ]
            else:
                found = [f"{item.uri} {item.name}" for item in await link.list_resources()]
            others = [f"{item.kind} {item.name}: {item.reason}" for item in link.left_out()]
            await link.stop()
        if (found, others) != (used, left_out):
            wrong[kind, name] = found, others

    lists = {"prompts": PROMPTS, "resources": RESOURCES}
    await asyncio.gather(*(check(kind, name, *case) for kind in lists for name, case in lists[kind].items()))
    assert wrong == {}


async def test_filled_prompts_and_resources_are_read_whatever_their_shape(tmp_path: Path) -> None:
    results = {f"prompts/get {name}": value for name, (value, _) in PROMPT_RESULTS.items()}
    results |= {f"resources/read {name}": value for name, (value, _) in READ_RESULTS.items()}
    answers = {key: raw({"jsonrpc": "2.0", "id": "@id@", "result": value}) for key, value in results.items()}
    answers |= {"other": raw(OTHER), "initialize first": raw(started(capabilities={"prompts": {}, "resources": {}}))}
    async with serving("stdio", answers, tmp_path) as spec:
        link = SidecarLink(spec, timing=FAST)
        await link.start()
        prompts = {name: await link.get_prompt(name) for name in PROMPT_RESULTS}
        resources = {name: await link.read_resource(name) for name in READ_RESULTS}
        await link.stop()
    texts = {name: "|".join(getattr(part, "text", "") for part in parts) for name, parts in prompts.items()}
    assert texts == {name: text for name, (_, text) in PROMPT_RESULTS.items()}
    texts = {name: "|".join(getattr(part, "text", "") for part in parts) for name, parts in resources.items()}
    assert texts == {name: text for name, (_, text) in READ_RESULTS.items()}
