"""What one call has printed and displayed, in order and of limited size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planck_nb.agent.calling.images import describe
from planck_nb.agent.calling.previews import MAX_PREVIEWS, html_document
from planck_nb.agent.calling.tool_output import MAX_IMAGES
from planck_nb.agent.preview_types import Preview, TablePreview
from planck_nb.ai.messages import ImagePart
from planck_nb.base.secrets import MAX_LENGTH, process_secrets, redact, unfinished_secret
from planck_nb.rendering.plain_output import for_terminal

HEAD_CHARACTERS = 24_000
TAIL_CHARACTERS = 12_000
"""How much of the beginning and of the end of the output is kept."""

_KEPT = TAIL_CHARACTERS + MAX_LENGTH
"""How much more of the end is kept: a cut inside a secret would leave a part that is not recognised."""

_IMAGES = ("image/png", "image/jpeg")
_TEXTS = ("text/markdown", "text/latex", "text/plain", "text/html")
_PLOTLY = "application/vnd.plotly.v1+json"
_KIND_CHARACTERS = 30
_MAX_KINDS = 20
_PLACEHOLDER = "<IPython.core.display."
"""The beginning of the text of IPython's display objects, such as `HTML`, which have no text of their own."""


@dataclass(slots=True)
class _OutputPiece:
    text: str
    preview: Preview | None = None


class CapturedOutput:
    """The output of one call.

    Args:
        progress: Called with each text that is printed.
    """

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._head: list[_OutputPiece] = []
        self._head_size = 0
        self._tail: deque[_OutputPiece] = deque()
        self._tail_size = self._left_out = 0
        self._displays: dict[str, _OutputPiece] = {}
        self._images: list[ImagePart] = []
        self._previewed: list[_OutputPiece] = []
        self._formatted: tuple[Mapping[str, object], TablePreview] | None = None
        self.closed = False
        """Whether the call has ended, so that what is printed later is not its output."""

    def write(self, text: str) -> None:
        """Add printed text."""
        self._add(_OutputPiece(text))
        self._progress(text)

    def show(self, text: str, preview: Preview | None = None) -> None:
        """Add a text that stands in lines of its own, and what people see in its place."""
        piece = _OutputPiece(_in_lines(text), preview)
        self._note_preview(piece)
        self._add(piece)

    def show_image(self, image: ImagePart) -> None:
        """Add an image."""
        self.show(self._words_for(image))

    def note_table(self, data: Mapping[str, object], table: TablePreview) -> None:
        """Remember the table of a data frame that was formatted, perhaps to be displayed next.

        Args:
            data: The representations of the data frame, which `display` recognises.
            table: What people see in their place.
        """
        self._formatted = (data, table)

    def display(self, data: Mapping[str, object], display_id: str = "", *, update: bool = False) -> None:
        """Add what was displayed.

        Args:
            data: Its representations by MIME type.
            display_id: The name under which it can be replaced later.
            update: Whether it replaces what was displayed under this name.
        """
        shown = self._displays.get(display_id) if display_id else None
        text = _in_lines(self._text_of(data))
        has_image = any(data.get(mime) for mime in _IMAGES)
        preview: Preview | None = None if has_image else html_document(data.get("text/html"), text)
        if self._formatted is not None and self._formatted[0] is data:
            preview = replace(self._formatted[1], text=text)
        self._formatted = None
        if update and shown is not None:
            shown.text, shown.preview = text, preview
            self._note_preview(shown)
            return
        piece = _OutputPiece(text, preview)
        self._note_preview(piece)
        if display_id:
            self._displays[display_id] = piece
        self._add(piece)

    def clear(self) -> None:
        """Remove everything, as `clear_output` does."""
        self._head.clear()
        self._tail.clear()
        self._displays.clear()
        self._images.clear()
        self._previewed.clear()
        self._head_size = self._tail_size = self._left_out = 0

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images, in order."""
        return tuple(self._images)

    @property
    def previews(self) -> tuple[Preview, ...]:
        """The tables and the HTML that people see instead of texts, in order."""
        return tuple(piece.preview for piece in self._previewed if piece.preview is not None)

    def _note_preview(self, piece: _OutputPiece) -> None:
        known = any(piece is other for other in self._previewed)
        if piece.preview is not None and not known and len(self._previewed) < MAX_PREVIEWS:
            self._previewed.append(piece)

    @property
    def text(self) -> str:
        """The text, with a note instead of what was left out."""
        head, tail = (for_terminal("".join(piece.text for piece in pieces)) for pieces in (self._head, self._tail))
        if not self._left_out and len(tail) <= TAIL_CHARACTERS:
            return f"{head}{tail}".strip("\n")
        known = process_secrets()
        begun = unfinished_secret(head, known)  # its rest may be in what is left out
        end = redact(tail, known)[-TAIL_CHARACTERS:]
        left_out = self._left_out + begun + len(tail) - len(end)
        return f"{head[: len(head) - begun]}\n[… {left_out:,} characters left out …]\n{end}".strip("\n")

    def _add(self, piece: _OutputPiece) -> None:
        if self._head_size < HEAD_CHARACTERS:
            space = HEAD_CHARACTERS - self._head_size
            rest = piece.text[space:]
            piece.text = piece.text[:space]
            self._head.append(piece)
            self._head_size += len(piece.text)
            if not rest:
                return
            piece = _OutputPiece(rest)
        if len(piece.text) > _KEPT:
            self._left_out += len(piece.text) - _KEPT
            piece.text = piece.text[-_KEPT:]
        self._tail.append(piece)
        self._tail_size += len(piece.text)
        while self._tail_size - len(self._tail[0].text) >= _KEPT:
            dropped = len(self._tail.popleft().text)
            self._tail_size -= dropped
            self._left_out += dropped

    def _text_of(self, data: Mapping[str, object]) -> str:
        for mime in _IMAGES:
            found = data.get(mime)
            if isinstance(found, bytes | str) and found:
                return self._words_for(ImagePart(found, mime))
        for mime in _TEXTS:
            found = data.get(mime)
            if isinstance(found, str) and not (found.startswith(_PLACEHOLDER) and "text/html" in data):
                return found
        if _PLOTLY in data:
            return _words_for_plotly(data[_PLOTLY])
        return f"[{', '.join(map(str, data))}: cannot be shown as text]" if data else ""

    def _words_for(self, image: ImagePart) -> str:
        try:
            words = describe(image)
        except ValueError:
            return "[image that cannot be read]"
        if len(self._images) >= MAX_IMAGES:
            return f"{words.rstrip(']')}: left out, because {MAX_IMAGES} images are the most]"
        self._images.append(image)
        return words


def _words_for_plotly(figure: object) -> str:
    """What a figure of plotly contains; only JavaScript can draw it."""
    traces = figure.get("data") if isinstance(figure, dict) else None
    kinds = (
        [trace.get("type", "scatter") for trace in traces if isinstance(trace, dict)]
        if isinstance(traces, list)
        else []
    )
    named = ", ".join(dict.fromkeys(str(kind)[:_KIND_CHARACTERS] for kind in kinds[:_MAX_KINDS]))
    contents = f" with {len(kinds)} {'trace' if len(kinds) == 1 else 'traces'} ({named})" if kinds else ""
    return (
        f"[plotly figure{contents}: nobody sees it here. A cell that ends with the variable shows it; a figure of "
        "matplotlib is seen here, too.]"
    )


def _in_lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
