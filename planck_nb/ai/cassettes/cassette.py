"""Which recorded answer belongs to a request, and whether the request may be sent."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.cassettes.cassette_file import CassetteEntry, append, read_entries
from planck_nb.ai.cassettes.request_key import canonical_request, differences, key_of
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.errors import CassetteError, CassetteMissError, MissingCredentialError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import MIN_LENGTH, find_secret, known_secrets, process_secrets

Mode: TypeAlias = Literal["off", "record", "replay", "auto"]
MODES: tuple[str, ...] = get_args(Mode)
DEFAULT_MODE: Mode = "auto"

REPLAYED = "cassette"
"""The wire format of replayed messages. No model speaks it, so recorded signatures are never sent to a server."""


@dataclass(slots=True)
class CassetteRequest:
    """What a cassette needs to know about a request besides its bytes, and what it reports back to the client.

    `missing` is raised if the request has to be sent; a replayed one needs no key. The client sets `paused` after it
    has decoded an answer that is to be continued; the cassette sets `replayed` if the answer is a recorded one, and
    `without_delay` if retries need not wait.
    """

    model: Model
    context: Context
    options: Options
    builder: MessageBuilder
    key: str | None = None
    missing: MissingCredentialError | None = None
    paused: bool = False
    replayed: bool = False
    without_delay: bool = False
    auth: Authenticator | None = None

    @property
    def secrets(self) -> set[str]:
        """The credentials that the request is sent with. A short word such as "none" is not one."""
        key = {self.key} if self.key and len(self.key) >= MIN_LENGTH else set[str]()
        return key if self.auth is None else key | self.auth.secrets

    @property
    def is_complete(self) -> bool:
        """Whether the answer was decoded completely."""
        return self.builder.stop_reason is not None or self.paused


@dataclass(frozen=True, slots=True)
class CassetteLookup:
    """A request's identity, how often it was sent before, and the recorded answer if there is one."""

    key: str
    occurrence: int
    request: JsonObject
    entry: CassetteEntry | None


class Cassette:
    """A file of recorded answers, used as `ai.Client(cassette=…)`.

    Answers belong to requests, not to their order, so that agents that run side by side are safe; the same request sent
    again has an answer of its own. An answer that was cancelled is cancelled again, after as much time.

    Args:
        path: The file, one JSON object per line.
        mode: "record" sends every request and replaces older recordings. "replay" sends nothing and needs no key; a
            request that was not recorded raises `CassetteMissError`. "auto" replays recorded, complete answers and
            records the rest, unless the environment variable CI is set. "off" does nothing.
        pace: Whether to replay answers at the speed at which they were recorded, instead of at once.
        normalise: A function that removes from a request what changes from run to run, such as a date.
        environment: Where to look for CI and for secrets, by default the process's environment.

    Raises:
        CassetteError: There is no such mode.
    """

    def __init__(
        self,
        path: Path | str,
        mode: Mode = DEFAULT_MODE,
        *,
        pace: bool = False,
        normalise: Callable[[JsonObject], JsonObject] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if mode not in MODES:
            raise CassetteError(f"A cassette has no mode {mode!r}; choose one of {', '.join(MODES)}.")
        self.path = Path(path).expanduser()
        self.mode: Mode = mode
        self.pace = pace
        self.margin = 2.0
        """Seconds to wait for a recorded cancellation; afterwards the replay cancels itself."""
        self.problem: str | None = None
        """The reason why an answer was not recorded, if there is one."""
        self._normalise = normalise
        self._environment = os.environ if environment is None else environment
        self._lock = threading.Lock()
        self._sent: dict[str, int] = {}
        self._entries: dict[tuple[str, int], CassetteEntry] | None = None

    def __repr__(self) -> str:
        return f"Cassette({str(self.path)!r}, mode={self.mode!r})"

    @property
    def answers(self) -> int:
        """The number of answers in the file. Raises `CassetteError` for a file that cannot be used."""
        return len(self._loaded())

    @property
    def recorded_model(self) -> str | None:
        """The "provider:model" of the first recorded request, None if there is none."""
        return next((str(entry.request["model"]) for entry in self._loaded().values()), None)

    def look_up(self, request_info: CassetteRequest) -> CassetteLookup:
        """Decide what to do with a request: replay a recorded answer, or send it.

        Args:
            request_info: The request.

        Returns:
            The request's identity, and the recorded answer if there is one.

        Raises:
            CassetteMissError: There is none, and the request may not be sent.
            CassetteError: The request contains a secret, or the file cannot be used.
        """
        request = canonical_request(request_info.model, request_info.context, request_info.options)
        if self._normalise is not None:
            request = self._normalise(request)
        key = key_of(request)
        with self._lock:
            occurrence = self._sent.get(key, 0)
            entry = self._usable(self._loaded().get((key, occurrence)))
            if entry is None:
                if self.mode == "replay" or (self.mode == "auto" and self._in_ci):
                    raise CassetteMissError(self._miss(request, key, occurrence, request_info))
                written = json.dumps(request, ensure_ascii=False)
                self._refuse_secrets("\n".join([written, *_texts(request)]), request_info, "the request")
            self._sent[key] = occurrence + 1
        return CassetteLookup(key, occurrence, request, entry)

    def has_answer(self, request_info: CassetteRequest) -> bool:
        """Check whether `look_up` would find a recorded answer now, without counting the request.

        Args:
            request_info: The request.

        Returns:
            Whether there is one.

        Raises:
            CassetteError: The file cannot be used.
        """
        if self.mode in {"off", "record"}:
            return False
        request = canonical_request(request_info.model, request_info.context, request_info.options)
        if self._normalise is not None:
            request = self._normalise(request)
        key = key_of(request)
        with self._lock:
            return self._usable(self._loaded().get((key, self._sent.get(key, 0)))) is not None

    def store(self, entry: CassetteEntry, request_info: CassetteRequest) -> None:
        """Write a recorded answer to the file.

        Args:
            entry: The answer.
            request_info: The request that it answers.

        Raises:
            CassetteError: The answer contains a secret, or the file cannot be written.
        """
        try:
            body = b"".join(chunk for _, chunk in entry.chunks).decode("utf-8", "replace")
            said = [text for part in request_info.builder.build("stop").content for text in _texts(asdict(part))]
            around = [*entry.headers.values(), entry.message]
            self._refuse_secrets("\n".join([body, *said, *around]), request_info, "the answer")
            append(self.path, entry.line())
        except CassetteError as error:
            self.problem = str(error)
            raise
        with self._lock:
            self._loaded()[entry.key, entry.occurrence] = entry

    @property
    def _in_ci(self) -> bool:
        return self._environment.get("CI", "").lower() not in {"", "0", "false"}

    def _usable(self, entry: CassetteEntry | None) -> CassetteEntry | None:
        if self.mode == "record":
            return None
        if self.mode == "auto" and entry is not None and not entry.complete and not self._in_ci:
            return None
        return entry

    def _loaded(self) -> dict[tuple[str, int], CassetteEntry]:
        if self._entries is None:
            if self.mode == "replay" and not self.path.exists():
                raise CassetteError(
                    f'There is no cassette {self.path}; record it first, with mode "record". Answers of the demo model '
                    "are not recorded: where it answers, choose it by its name."
                )
            self._entries = {(entry.key, entry.occurrence): entry for entry in read_entries(self.path)}
        return self._entries

    def _refuse_secrets(self, text: str, request_info: CassetteRequest, where: str) -> None:
        found = find_secret(text, self._secrets(request_info))
        if found is not None:
            raise CassetteError(
                f"{where.capitalize()} contains {found}, so it is not written to {self.path}; keep secrets out of what "
                "agents read, or turn the cassette off."
            )

    def _secrets(self, request_info: CassetteRequest) -> dict[str, str]:
        used = dict.fromkeys(request_info.secrets, "the API key")
        return {**process_secrets(), **known_secrets(self._environment), **used}

    def _miss(self, request: JsonObject, key: str, occurrence: int, request_info: CassetteRequest) -> str:
        """The sentence for a request that has no recorded answer."""
        entries = self._loaded()
        again = 'record it again with mode "record"'
        if self.mode == "auto":
            again = "CI is set, so nothing is recorded: record it elsewhere"
        if occurrence and (key, occurrence - 1) in entries:
            return (
                f"{self.path} contains {occurrence} answer{'s' * (occurrence > 1)} to this request to "
                f"{request_info.model}, but the request was sent again; restart the replay, or {again}."
            )
        sentence = f"{self.path} contains no answer to this request to {request_info.model}"
        if not entries:
            return f"{sentence} because it is empty; {again}."
        compared = (differences(entry.request, request) for entry in entries.values())
        found = min(compared, key=lambda found: (sum(difference.weight for difference in found), len(found)))
        if not found:
            return f"{sentence}, which has now been sent {occurrence + 1} times; {again}."
        shown = str(found[0])
        if find_secret(shown, self._secrets(request_info)) is not None:
            shown = found[0].where
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{sentence}; the nearest recorded one differs in {shown}{more}; {again}."


def _texts(data: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """Every text in JSON data as it was before it was encoded, names of fields included."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for name, value in data.items():
            yield str(name)
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)
