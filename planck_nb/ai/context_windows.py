"""How long a request to a model may be: what servers report, what they refuse, and the sentences that say so."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from planck_nb.ai.models import Model
from planck_nb.ai.numbers import context_length, token_count
from planck_nb.ai.providers import base_url_of, rules_of
from planck_nb.ai.request import Options
from planck_nb.base.errors import PlanckError

_MAX_REMEMBERED = 1_000
"""How many models are remembered."""

_MAX_SEARCHED = 4_000

_NUMBER = r"(\d[\d,_]{0,15})"
_OF = r"(?: (?:is|of|only|at most))*:? ?\(?"
_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:context|prompt|sequence|input)[ _-](?:length|size|window|limit)(?: limit)?{_OF}{_NUMBER}",
        rf"max(?:imum)?(?: allowed)?(?: \w+)? (?:length|number of tokens allowed|tokens){_OF}{_NUMBER}",
        rf"(?:(?<!=)>=?|<=|≤|exceeds?(?: the)?(?: limit(?: of)?)?) ?{_NUMBER}",
        rf"{_NUMBER} maximum context|\bn_ctx: ?{_NUMBER}|\blimit (?:of|is) {_NUMBER}",
        rf"(?:less than(?: or equal to)?|no more than|supports? (?:only )?up to) {_NUMBER}(?! thinking)",
    )
)
_SIZES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\brequested (?:about |a total of )?{_NUMBER}",
        rf"\b(?:resulted in|contains|given:|has|received|actual:) {_NUMBER}",
        rf"\b(?:request|input|count|length|prompt)(?: of)? \((?:(?:total )?length )?{_NUMBER}",
        rf"\b(?:count|length)(?: is|:)? {_NUMBER}|\btotal of (?:at least )?{_NUMBER}",
        rf"\bkeep the first {_NUMBER}",
        rf"too long: {_NUMBER}",
        rf"{_NUMBER} (?:input tokens|tokens) (?:>|exceed)",
    )
)
_INPUT = re.compile(
    rf"[(:] ?{_NUMBER} (?:tokens )?(?:in|from|of) (?:the |your )?(?:(?:input )?messages|prompt|(?:text )?input)"
    rf"|prompt contains (?:at least )?{_NUMBER} input tokens",
    re.IGNORECASE,
)
_PER_TIME = re.compile(r"\b(?:per|/) ?(?:min(?:ute)?|hour|day)\b|\b[TR]P[MD]\b", re.IGNORECASE)
_BYTES = re.compile(
    r"\bbytes?\b|\d ?[KMG]i?B\b|string too long|maxLength: \d"
    r"|request_too_large|\bpayload|(?:request|message) (?:body|entity)|maximum size",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"token|context|prompt|length|\binput\b", re.IGNORECASE)
_TOO_LARGE = 413
_SUM = re.compile(rf"{_NUMBER} \+ {_NUMBER} > {_NUMBER}")
_DIFFERENCE = re.compile(rf"{_NUMBER} > {_NUMBER} - {_NUMBER}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The sizes in a server's sentence about a request that is too long.

    Args:
        tokens: The tokens of the request, None if the sentence does not name them.
        limit: The tokens that a request may have, None if the sentence does not name them.
        input_tokens: The tokens of the request without those of the reply, None if the sentence does not name them.
    """

    tokens: int | None = None
    limit: int | None = None
    input_tokens: int | None = None


def is_about_window(status: int, words: str) -> bool:
    """Whether a refusal of a request that is too long may be about the model's context window.

    It is not if it is about the bytes or characters of the request, or about the account's limit per minute.
    """
    words = words[:_MAX_SEARCHED]
    if _PER_TIME.search(words) is not None or (_BYTES.search(words) is not None and "token" not in words.lower()):
        return False
    return status != _TOO_LARGE or _LENGTH.search(words) is not None


def read_refusal(words: str) -> Refusal:
    """Read the sizes in a server's sentence about a request that is too long.

    An account's limit per minute is not a limit of the model, and what counts against it is not a size of the request.
    """
    words = words[:_MAX_SEARCHED]
    if _PER_TIME.search(words) is not None:
        return Refusal()
    if (found := _SUM.search(words)) is not None:  # input, output and limit
        read, written, limit = map(_tokens, found.groups())
    elif (found := _DIFFERENCE.search(words)) is not None:  # output, limit and input
        written, limit, read = map(_tokens, found.groups())
    if found is not None:
        if read is None or written is None:
            return Refusal(limit=context_length(limit))
        return Refusal(read + written, context_length(limit), read)
    limit = min(filter(None, _found(_LIMITS, words)), default=None)
    sizes = [size for size in _found(_SIZES, words) if size is not None and (limit is None or size > limit)]
    tokens = max(sizes, default=None)
    named = _INPUT.search(words)
    read = None if named is None or tokens is None else _tokens(named[1] or named[2])
    return Refusal(tokens, context_length(limit), read if read is not None and 0 < read <= (tokens or 0) else None)


def _found(patterns: Iterable[re.Pattern[str]], words: str) -> Iterator[int | None]:
    for pattern in patterns:
        for match in pattern.finditer(words):
            yield _tokens(next(filter(None, match.groups())))


def _tokens(digits: str) -> int | None:
    return token_count(int(digits.replace(",", "").replace("_", "")))


class ContextWindows:
    """What the servers of models have refused as too long, and the context windows that remain."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounds: dict[tuple[str, str], int] = {}

    def refused(self, model: Model, tokens: int) -> None:
        """Remember that requests of more than `tokens` tokens are too long for a model at its server."""
        if (place := _place(model)) is None or tokens < 1:
            return
        with self._lock:
            self._bounds[place] = min(tokens, self._bounds.pop(place, tokens))
            while len(self._bounds) > _MAX_REMEMBERED:
                del self._bounds[next(iter(self._bounds))]

    def forget(self, model: Model) -> None:
        """Forget what was refused, because the server has reported the window again."""
        if (place := _place(model)) is not None:
            with self._lock:
                self._bounds.pop(place, None)

    def window(self, model: Model, options: Options) -> int | None:
        """The tokens that a request to a model may have, None if nothing is known.

        Args:
            model: The model.
            options: The options of the request.
        """
        place = _place(model)
        bound = None if place is None else self._bounds.get(place)
        known = [size for size in (window_in_request(model, options), bound) if size is not None]
        return min(known, default=None)


def window_in_request(model: Model, options: Options) -> int | None:
    """The context window of a model, which for Ollama is the one that the request sets; None if it is unknown."""
    if model.api == "ollama":
        parameters = options.over(model.options).extra.get("options")
        if isinstance(parameters, Mapping) and (size := context_length(parameters.get("num_ctx"))) is not None:
            return size
    return model.context_window


def cuts_silently(model: Model) -> bool:
    """Whether the server drops the beginning of a conversation that is too long, rather than refusing it."""
    return model.api == "ollama"


def is_reported(model: Model) -> bool:
    """Whether the server, rather than the user or the catalogue, is to say how large the model's window is."""
    if model.unavailable is not None:
        return False
    if model.api != "ollama" and not rules_of(model).reports_window:
        return False
    if model.context_window is None:
        return True
    return not model.alias and model.found is not None and model.found.context_window == model.context_window


def _place(model: Model) -> tuple[str, str] | None:
    try:
        return base_url_of(model), str(model)
    except PlanckError:  # it needs no server, or has no usable address
        return None
