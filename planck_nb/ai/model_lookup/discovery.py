"""Asks servers which models they have. A server that does not answer as expected has none."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic_core import from_json

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.models import Modality, Model
from planck_nb.ai.numbers import context_length
from planck_nb.ai.providers import auth_of, base_url_of, needs_server, request_address, rules_of
from planck_nb.ai.retries.retry import Timeouts
from planck_nb.ai.server_address import is_loopback
from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject

if TYPE_CHECKING:
    from planck_nb.ai.transport import Transport

TIMEOUT = 2.0
"""Seconds for all requests to one server."""

_GRACE = 0.5
"""Seconds beyond the timeout in which the thread may close its connections."""

_MAX_CONCURRENT = 8
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_ID_LENGTH = 500
_MAX_NUMBER_DIGITS = 20
_OK = 200

_UNUSABLE = (PlanckError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What is raised if there is no server, or not one of the expected kind."""


def models_of(template: Model, key: str | None, *, seconds: float = TIMEOUT) -> list[Model]:
    """The models of the server at the address of `template`, none if it does not answer in time.

    `key` is the API key to send, None for none. Raises `ConfigError` for an address that is not one.
    """
    if not _may_answer(base_url_of(template), seconds):
        return []
    from planck_nb.ai.transport import Transport  # noqa: PLC0415 - httpx and aiohttp load at the first request

    found: Future[list[Model]] = Future()

    def work() -> None:
        try:
            # Not `asyncio.run`, which nest-asyncio replaces with one that needs a loop in this thread.
            with asyncio.Runner() as runner:
                found.set_result(runner.run(_models(template, key, Transport(Timeouts()), seconds)))
        except BaseException as error:  # noqa: BLE001 - raised again by `found.result`
            found.set_exception(error)

    # A thread that can be left behind: resolving a host has no timeout, and this may be called in an event loop.
    Thread(target=work, name="planck-discovery", daemon=True).start()
    try:
        return found.result(seconds + _GRACE)
    except TimeoutError:
        return []


def _may_answer(url: str, seconds: float) -> bool:
    """False if nothing listens at an address of this machine: then loading an HTTP client would be wasted."""
    split = urlsplit(url)
    if not is_loopback(url) or split.hostname is None:
        return True
    try:
        with socket.create_connection(
            (split.hostname, split.port or (443 if split.scheme == "https" else 80)), seconds
        ):
            return True
    except (OSError, ValueError):
        return False


def absence(model: Model) -> str:
    """Return a sentence if a model's server on this machine is absent.

    Raises `ConfigError` for an unusable address.
    """
    if not needs_server(model.provider) or _may_answer(url := base_url_of(model), TIMEOUT):
        return ""
    return f"No server answers at {url} ({model.provider}) now; start it before you prompt."


async def context_window_of(model: Model, key: str | None, transport: Transport) -> int | None:
    """The context length of a model of Ollama or llama.cpp, None if its server does not name it.

    Raises `PlanckError`, `OSError` and `ValueError` if the server does not answer as it should.
    """
    async with asyncio.timeout(TIMEOUT):
        server = _Server(transport, model, key)
        if model.api == "ollama":
            facts = await server.post("/api/show", {"model": model.id})
            return _window(facts) if isinstance(facts, dict) else None
        try:
            return _running_window(await server.get("/props"))
        except _UNUSABLE:  # a router of several models has none of its own
            rows = (await server.get("/models")).get("data")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("id") == model.id and isinstance(meta := row.get("meta"), dict):
            return context_length(meta.get("n_ctx"))
    return None


def _running_window(props: Any) -> int | None:  # noqa: ANN401 - any JSON value
    """The context length of each of a llama.cpp server's slots. Raises one of `_UNUSABLE` if it is not named."""
    return context_length(props["default_generation_settings"]["n_ctx"])


async def _models(template: Model, key: str | None, transport: Transport, seconds: float) -> list[Model]:
    server = _Server(transport, template, key)
    try:
        async with asyncio.timeout(seconds):
            if template.api == "ollama":
                return await _ollama(template, server)
            answer = await server.get("/models")
            rows = answer if isinstance(answer, list) else answer["data"]  # a list from Together
            found = [model for row in rows if (model := _described(template, row)) is not None]
            if rules_of(template).reports_window and len(found) == 1:
                found = [await _running(found[0], server)]
            return found
    except _UNUSABLE:
        return []
    finally:
        await transport.close()


def _described(template: Model, row: Any) -> Model | None:  # noqa: ANN401 - any JSON value
    """A row of an OpenAI-compatible list, None if it has no usable id; servers name the context length differently."""
    if not isinstance(row, dict) or not _is_id(row.get("id")):
        return None
    meta = row.get("meta")
    facts = {**row, **meta} if isinstance(meta, dict) else row
    windows = (facts.get(name) for name in ("n_ctx_train", "context_window", "context_length", "max_model_len"))
    window = next(filter(None, map(context_length, windows)), None)
    return replace(template, id=row["id"], name=row["id"], context_window=window)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_ID_LENGTH and value.isprintable()


async def _running(model: Model, server: _Server) -> Model:
    """A llama.cpp model as its server runs it: usually with less context than it was trained for."""
    try:
        props = await server.get("/props")
        window = _running_window(props)
        sees = (props.get("modalities") or {}).get("vision")
    except _UNUSABLE:
        return model
    modalities: tuple[Modality, ...] = ("text", "image") if sees else ("text",)
    return replace(
        model,
        context_window=window or model.context_window,
        modalities=None if sees is None else modalities,
    )


async def _ollama(template: Model, server: _Server) -> list[Model]:
    rows = (await server.get("/api/tags"))["models"]
    names = [row["name"] for row in rows if isinstance(row, dict) and _is_id(row.get("name"))]
    slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def show(name: str) -> JsonObject:
        async with slots:
            return await _show(name, server)

    shown = await asyncio.gather(*map(show, names))
    return list(_chat_models(template, zip(names, shown, strict=True)))


async def _show(name: str, server: _Server) -> JsonObject:
    """What Ollama knows about a model; nothing if it does not answer."""
    try:
        shown = await server.post("/api/show", {"model": name})
    except _UNUSABLE:
        return {}
    return shown if isinstance(shown, dict) else {}


def _chat_models(template: Model, shown: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[Model]:
    """The models that can chat; others only compute embeddings."""
    for name, facts in shown:
        model = replace(template, id=name, name=name, context_window=_window(facts))
        able = facts.get("capabilities")
        if not isinstance(able, list):
            yield model
        elif "completion" in able:
            yield replace(
                model,
                modalities=("text", "image") if "vision" in able else ("text",),
                thinking="thinking" in able,
                thinking_levels=("off", "low", "medium", "high") if "thinking" in able else (),
            )


def _window(facts: dict[str, Any]) -> int | None:
    """The context length: the one that the model's own parameters set, else the one it was trained for."""
    for line in str(facts.get("parameters") or "").splitlines():
        name, _, value = line.partition(" ")
        value = value.strip()
        if name == "num_ctx" and value.isdecimal() and len(value) <= _MAX_NUMBER_DIGITS:
            return context_length(int(value))
    info = facts.get("model_info")
    if not isinstance(info, dict):
        return None
    return context_length(info.get(f"{info.get('general.architecture')}.context_length"))


class _Server:
    """A server that answers with JSON."""

    def __init__(self, transport: Transport, model: Model, key: str | None) -> None:
        self._transport = transport
        self._model = model
        self._address = request_address(model)
        self._headers = {"accept": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._headers.update(self._address.headers)

    async def get(self, path: str) -> Any:  # noqa: ANN401 - somebody else's JSON
        """The answer to a GET request. Raises `PlanckError`, `OSError` and `ValueError`."""
        return await self._send("GET", path, b"")

    async def post(self, path: str, body: JsonObject) -> Any:  # noqa: ANN401 - somebody else's JSON
        """The answer to a POST request. Raises `PlanckError`, `OSError` and `ValueError`."""
        return await self._send("POST", path, json.dumps(body).encode())

    async def _send(self, method: str, path: str, body: bytes) -> Any:  # noqa: ANN401 - somebody else's JSON
        root = self._address.url.removesuffix("/v1") if path == "/props" else self._address.url
        headers = {**self._headers, "content-type": "application/json"} if body else self._headers
        auth = auth_of(self._model)
        reply = await self._transport.send(
            self._model,
            self._address.with_query(f"{root}{path}"),
            headers,
            body,
            method=method,
            auth=None if auth is None else Authenticator(auth, str(self._model)),
        )
        async with aclosing(reply):
            if reply.status != _OK:
                raise ConnectionError(f"{root}{path} answered with status {reply.status}")
            body = await reply.body(_MAX_BODY_BYTES)
            return from_json(body)  # refuses deep nesting without exhausting Python's stack
