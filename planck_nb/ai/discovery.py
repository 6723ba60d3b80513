"""Asks servers which models they have. What does not answer as it should has none: discovery never raises.

By the standard library, because it happens where no event loop runs, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from planck_nb.ai.models import Modality, Model
from planck_nb.ai.providers import base_url_of, is_loopback

if TYPE_CHECKING:
    from urllib.request import OpenerDirector, Request

_PATIENCE = 2.0
"""Seconds that a server may take for all it is asked."""

_AT_ONCE = 8
_LONGEST = 4 * 1024 * 1024

_UNUSABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""What it means to find no server, or another one than was thought."""


def ask(template: Model) -> list[Model]:
    """The models of the server that `template` names. Raises `ConfigError` for an address that is none."""
    server = _Server(template)
    try:
        if template.api == "ollama":
            return _ollama(template, server)
        rows = server.ask("/models")["data"]
        found = [_described(template, row) for row in rows]
        if template.provider == "llama_cpp" and len(found) == 1:
            found = [_running(found[0], server)]
    except _UNUSABLE:
        return []
    return found


def context_window_of(model: Model, key: str | None) -> int | None:
    """The context length of an Ollama model, None where its server does not say. Raises `OSError` and `ValueError`."""
    facts = _Server(replace(model, api_key=key)).ask("/api/show", {"model": model.id})
    return _window(facts) if isinstance(facts, dict) else None


def _described(template: Model, row: Any) -> Model:  # noqa: ANN401 - somebody else's JSON
    """A row of an OpenAI-compatible list; what a server says beyond the id has many names."""
    facts = {**row, **(row.get("meta") or {})}
    windows = (facts.get(name) for name in ("n_ctx_train", "context_window", "context_length", "max_model_len"))
    window = next((window for window in windows if isinstance(window, int) and window > 0), None)
    return replace(template, id=row["id"], name=row["id"], context_window=window)


def _running(model: Model, server: _Server) -> Model:
    """A llama.cpp model as its server runs it: with less context, as a rule, than it was trained for."""
    try:
        props = server.ask("/props")
        window = props["default_generation_settings"]["n_ctx"]
        sees = (props.get("modalities") or {}).get("vision")
    except _UNUSABLE:
        return model
    modalities: tuple[Modality, ...] = ("text", "image") if sees else ("text",)
    return replace(
        model,
        context_window=window if isinstance(window, int) and window > 0 else model.context_window,
        modalities=None if sees is None else modalities,
    )


def _ollama(template: Model, server: _Server) -> list[Model]:
    names = [row["name"] for row in server.ask("/api/tags")["models"]]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        shown = pool.map(lambda name: _show(name, server), names)
        return list(_chatting(template, zip(names, shown, strict=True)))


def _show(name: str, server: _Server) -> dict[str, Any]:
    """What Ollama knows of a model; nothing where it does not say."""
    try:
        shown = server.ask("/api/show", {"model": name})
    except _UNUSABLE:
        return {}
    return shown if isinstance(shown, dict) else {}


def _chatting(template: Model, shown: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[Model]:
    """The models that one can talk to; others only make embeddings."""
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
    """The context length: what the model's own parameters set, else what it was made for."""
    for line in str(facts.get("parameters") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "num_ctx" and value.strip().isdigit():
            return int(value)
    info = facts.get("model_info")
    if not isinstance(info, dict):
        return None
    window = info.get(f"{info.get('general.architecture')}.context_length")
    return window if isinstance(window, int) and window > 0 else None


class _Server:
    """A server that is asked for JSON, which it has `_PATIENCE` seconds for in all."""

    def __init__(self, model: Model) -> None:
        self._root = base_url_of(model)
        self._headers = {"accept": "application/json", "content-type": "application/json"}
        if model.api_key and model.has_api_key:
            self._headers["authorization"] = f"Bearer {model.api_key}"
        self._deadline = monotonic() + _PATIENCE

    def ask(self, path: str, question: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - somebody else's JSON
        """What it answers. Raises `OSError` and `ValueError`."""
        from urllib.request import Request  # noqa: PLC0415 - loads much, needed rarely

        from pydantic_core import from_json  # noqa: PLC0415 - refuses deep nesting without exhausting Python's stack

        root = self._root.removesuffix("/v1") if path == "/props" else self._root
        body = None if question is None else json.dumps(question).encode()
        request = Request(f"{root}{path}", body, self._headers)  # noqa: S310 - the user's own base_url
        # In a thread that can be left behind: urllib's timeout is that of one step, and finding the address has none.
        answer: Future[bytes] = Future()
        Thread(target=self._read, args=(request, answer), daemon=True).start()
        return from_json(answer.result(max(0.0, self._deadline - monotonic())))

    def _read(self, request: Request, answer: Future[bytes]) -> None:
        from http.client import HTTPException  # noqa: PLC0415 - as above
        from urllib.error import HTTPError  # noqa: PLC0415 - as above

        try:
            body = b""
            with _opener(request.full_url).open(request, timeout=_PATIENCE) as reply:
                while len(body) < _LONGEST and monotonic() < self._deadline and (piece := reply.read1(65536)):
                    body += piece
            answer.set_result(body)
        except HTTPError as error:
            error.close()
            answer.set_exception(ConnectionError(str(error)))
        except HTTPException as error:
            answer.set_exception(ConnectionError(repr(error)))
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(error.with_traceback(None))


def _opener(url: str) -> OpenerDirector:
    """Opens URLs, this machine's without a proxy, and goes nowhere else: a key is for the server that was named."""
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener  # noqa: PLC0415 - as above

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    return build_opener(NoRedirects, *([ProxyHandler({})] if is_loopback(url) else []))
