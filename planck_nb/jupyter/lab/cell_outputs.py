"""Outputs from messages, and their comparison without ids and addresses."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Output: TypeAlias = dict[str, Any]
"""An output as in a notebook file."""

MAX_OUTPUT = 20_000_000
"""Characters kept from a cell's outputs; what follows is dropped."""

MAX_TEXT = 20_000
"""Characters shown of each side."""

_VOLATILE = frozenset(
    {
        "application/vnd.jupyter.widget-view+json",
        "application/vnd.jupyter.widget-state+json",
        "application/vnd.planck.run.v1+json",  # the same answer is in the other forms
    }
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_STYLER = re.compile(r"\bT_[0-9a-f]{5}(?=[\"_ ])")
_CELL_FILE = re.compile(r"\bipykernel_\d+[/\\]\d+\.py")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CELL_NUMBER = re.compile(r"\b(?:Cell In\s?|Input In\s?|In\s?)\[\d+\]")


class OutputCollector:
    """Collector for the outputs in messages."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self._displays: dict[str, list[Output]] = {}
        self._clears = False
        self._length = 0

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add a message.

        Args:
            kind: Its type; what is no output is ignored.
            content: Its content.
        """
        if kind == "clear_output":
            self._clears = True
            if not content.get("wait"):
                self._clear()
        elif kind == "update_display_data":
            for output in self._displays.get(_display_id(content), ()):
                output["data"] = content["data"]
        elif kind in {"stream", "display_data", "execute_result", "error"}:
            if self._clears:
                self._clear()
            self._append({"output_type": kind, **content}, _display_id(content))

    def _append(self, output: Output, display: str) -> None:
        output.pop("transient", None)
        if self._length > MAX_OUTPUT:
            return
        self._length += sum(len(str(value)) for value in output.values())
        if output["output_type"] == "stream":
            output["text"] = [_joined(output.get("text"))]
            if self.outputs and self.outputs[-1].get("name") == output.get("name"):
                self.outputs[-1]["text"] += output["text"]
                return
        self.outputs.append(output)
        if display:
            self._displays.setdefault(display, []).append(output)

    def _clear(self) -> None:
        self.outputs.clear()
        self._displays.clear()
        self._clears = False


def comparable(outputs: Iterable[Mapping[str, Any]], paths: Mapping[str, str] | None = None) -> str:
    """Return outputs as text, without ids, addresses, counts and metadata.

    Args:
        outputs: The outputs.
        paths: Paths to replace, such as a copy's by the original's.
    """
    text = "\n".join(part for output in _merged(outputs) for part in _parts(output) if part)
    for path, instead in (paths or {}).items():
        text = text.replace(path, instead)
    for pattern, instead in ((_UUID, "…"), (_ADDRESS, "0x…"), (_STYLER, "T_…"), (_CELL_FILE, "cell.py")):
        text = pattern.sub(instead, text)
    return text


def error_of(outputs: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Return an exception's name and text; empty without a failure.

    Args:
        outputs: The outputs.
    """
    for output in outputs:
        if output.get("output_type") == "error":
            return str(output.get("ename", "")), _ANSI.sub("", str(output.get("evalue", "")))
    return "", ""


def excerpts(before: str, after: str) -> tuple[str, str]:
    """Return two texts from shortly before their first difference, bounded.

    Args:
        before: One text.
        after: The other one.
    """
    if max(len(before), len(after)) <= MAX_TEXT:
        return before, after
    differing = (at for at, (left, right) in enumerate(zip(before, after, strict=False)) if left != right)
    place = next(differing, min(len(before), len(after)))
    start = before.rfind("\n", 0, max(0, place - MAX_TEXT // 4)) + 1
    return _bounded(before, start), _bounded(after, start)


def _bounded(text: str, start: int) -> str:
    end = start + MAX_TEXT
    return "…\n" * (start > 0) + text[start:end] + "\n…" * (end < len(text))


def _merged(outputs: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Join neighbouring texts in one stream, however they were cut."""
    collector = OutputCollector()
    for output in outputs:
        content = {name: value for name, value in output.items() if name != "output_type"}
        collector.add(str(output.get("output_type")), content)
    return iter(collector.outputs)


def _parts(output: Mapping[str, Any]) -> Iterator[str]:
    match output["output_type"]:
        case "stream":
            name = f"[{output['name']}]\n" if output.get("name", "stdout") != "stdout" else ""
            yield f"{name}{_overwritten(_ANSI.sub('', _joined(output.get('text'))))}".rstrip("\n")
        case "error":
            name, text = error_of([output])
            yield _CELL_NUMBER.sub("Cell", f"{name}: {text}")
        case _:
            data = output.get("data")
            for mime, value in sorted(data.items()) if isinstance(data, Mapping) else ():
                if mime not in _VOLATILE:
                    yield _data(mime, value)


def _overwritten(text: str) -> str:
    """Return a text as terminals show it, after carriage returns."""
    return text if "\r" not in text else "\n".join(map(_last_line, text.replace("\r\n", "\n").split("\n")))


def _last_line(line: str) -> str:
    result = ""
    for part in line.split("\r"):
        result = part + result[len(part) :]
    return result


def _data(mime: str, value: object) -> str:
    if mime.endswith("json"):
        return f"[{mime}]\n{json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str)}"
    text = _joined(value)
    if mime.startswith("text/") or mime == "image/svg+xml":
        text = _ANSI.sub("", text).rstrip("\n")
        return text if mime == "text/plain" else f"[{mime}]\n{text}"
    try:
        content = base64.b64decode(text)
    except (binascii.Error, ValueError):
        content = text.encode("utf-8", "replace")
    return f"[{mime}, {len(content):,} bytes, {hashlib.sha256(content).hexdigest()[:12]}]"


def _joined(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _display_id(content: Mapping[str, Any]) -> str:
    return str((content.get("transient") or {}).get("display_id", ""))
