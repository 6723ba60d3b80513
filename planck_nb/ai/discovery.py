"""Asks servers which models they have. What does not answer as it should has none: discovery never raises.

By the standard library, because it happens where no event loop runs, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from planck_nb.ai.models import Modality, Model
from planck_nb.ai.providers import base_url_of, is_loopback

_TIMEOUT = 1.0
"""Seconds that a server may take for an answer."""

_AT_ONCE = 8


def ask(template: Model) -> list[Model]:
    """The models of the server that `template` names. Raises `ConfigError` for an address that is none."""
    root = base_url_of(template)
    try:
        if template.api == "ollama":
            return _ollama(template, root)
        rows = _fetch(f"{root}/models", template)["data"]
        found = [_described(template, row) for row in rows]
        if template.provider == "llama_cpp" and len(found) == 1:
            found = [_running(found[0], root)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return found


def _described(template: Model, row: Any) -> Model:  # noqa: ANN401 - somebody else's JSON
    """A row of an OpenAI-compatible list; what a server says beyond the id has many names."""
    facts = {**row, **(row.get("meta") or {})}
    windows = (facts.get(name) for name in ("n_ctx_train", "context_window", "context_length", "max_model_len"))
    window = next((window for window in windows if isinstance(window, int) and window > 0), None)
    return replace(template, id=row["id"], name=row["id"], context_window=window)


def _running(model: Model, root: str) -> Model:
    """A llama.cpp model as its server runs it: with less context, as a rule, than it was trained for."""
    try:
        props = _fetch(f"{root.removesuffix('/v1')}/props", model)
        window = props["default_generation_settings"]["n_ctx"]
        sees = (props.get("modalities") or {}).get("vision")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return model
    modalities: tuple[Modality, ...] = ("text", "image") if sees else ("text",)
    return replace(
        model,
        context_window=window if isinstance(window, int) and window > 0 else model.context_window,
        modalities=None if sees is None else modalities,
    )


def _ollama(template: Model, root: str) -> list[Model]:
    names = [row["name"] for row in _fetch(f"{root}/api/tags", template)["models"]]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        shown = pool.map(lambda name: _show(name, root, template), names)
        return list(_chatting(template, zip(names, shown, strict=True)))


def _show(name: str, root: str, template: Model) -> dict[str, Any]:
    """What Ollama knows of a model; nothing where it does not say."""
    try:
        shown = _fetch(f"{root}/api/show", template, {"model": name})
    except (OSError, ValueError):
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


def _fetch(url: str, model: Model, question: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - somebody else's JSON
    from urllib.request import ProxyHandler, Request, build_opener  # noqa: PLC0415 - loads much, needed rarely

    headers = {"accept": "application/json", "content-type": "application/json"}
    if model.api_key and model.has_api_key:
        headers["authorization"] = f"Bearer {model.api_key}"
    body = None if question is None else json.dumps(question).encode()
    request = Request(url, body, headers)  # noqa: S310 - the user's own base_url
    opener = build_opener(ProxyHandler({})) if is_loopback(url) else build_opener()
    with opener.open(request, timeout=_TIMEOUT) as reply:
        return json.load(reply)
