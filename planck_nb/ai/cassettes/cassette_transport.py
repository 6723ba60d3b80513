"""Records the answers to requests, or replays them."""

from __future__ import annotations

import asyncio
import time

from planck_nb.ai.cassettes.cassette import REPLAYED, Cassette, CassetteLookup, CassetteRequest
from planck_nb.ai.cassettes.cassette_file import ERRORS, CassetteEntry
from planck_nb.ai.connection_errors import failure
from planck_nb.ai.exchange import HttpRequest, OpenResponse, Sender
from planck_nb.ai.models import Model
from planck_nb.base.errors import CassetteError
from planck_nb.base.timeouts import ReusableTimeout

_OK = 200
_KEPT_HEADERS = frozenset(
    {"content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id"}
)


class CassetteSender:
    """Answers from a cassette, or sends requests to `inner` and records the answers.

    `timeout` cancels a request whose answer does not begin in time: that is recorded as a timeout, not as an aborted
    run. `request_info` describes the request.
    """

    def __init__(
        self, cassette: Cassette, inner: Sender, timeout: ReusableTimeout, request_info: CassetteRequest
    ) -> None:
        self._cassette = cassette
        self._inner = inner
        self._timeout = timeout
        self._request_info = request_info

    async def send(self, request: HttpRequest) -> OpenResponse:
        """Replay the answer, or send the request and record it. Raises `CassetteError`, and what `inner` raises."""
        request_info = self._request_info
        lookup = self._cassette.look_up(request_info)
        request_info.paused = False
        request_info.replayed = lookup.entry is not None
        request_info.without_delay = lookup.entry is not None and not self._cassette.pace
        if lookup.entry is not None:
            request_info.builder.api = REPLAYED
            return await _played(lookup.entry, request_info.model, self._cassette)
        if request_info.missing is not None:
            raise request_info.missing
        return await self._recorded(request, _Recording(self._cassette, lookup, request_info))

    async def _recorded(self, request: HttpRequest, recording: _Recording) -> OpenResponse:
        try:
            response = await self._inner.send(request)
        except asyncio.CancelledError:
            recording.keep(error=TimeoutError() if self._timeout.expired else None)
            raise
        except Exception as error:
            recording.keep(error=error)
            raise
        recording.answered(response)
        body = _RecordedBody(response, recording)
        return OpenResponse(response.status, response.headers, body.read, body.close)


class _Recording:
    """An entry that is being recorded."""

    def __init__(self, cassette: Cassette, lookup: CassetteLookup, request_info: CassetteRequest) -> None:
        self._cassette = cassette
        self._lookup = lookup
        self._request_info = request_info
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._chunks: list[tuple[float, bytes]] = []
        self._last = time.monotonic()

    def answered(self, response: OpenResponse) -> None:
        self._status = response.status
        self._headers = {name: value for name, value in response.headers.items() if name in _KEPT_HEADERS}

    def add(self, chunk: bytes) -> None:
        self._chunks.append((self._pause(), chunk))

    def keep(self, *, ended: bool = False, error: BaseException | None = None) -> CassetteError | None:
        """Write the entry. Returns the error that prevented it. Only connection errors are recorded."""
        model = self._request_info.model
        whole = self._request_info.is_complete
        end, message = "eof" if ended or whole else "closed", ""
        if error is not None and not whole:
            meaning = failure(error, model)
            if meaning is None:
                return None
            end, message = type(meaning).__name__, str(meaning)
        entry = CassetteEntry(
            key=self._lookup.key,
            occurrence=self._lookup.occurrence,
            provider=model.provider,
            api=model.api,
            model=model.id,
            request=self._lookup.request,
            status=self._status,
            headers=self._headers,
            chunks=tuple(self._chunks),
            end=end,
            message=message,
            end_ms=self._pause(),
            complete=whole and end == "eof" and self._status == _OK,
        )
        try:
            self._cassette.store(entry, self._request_info)
        except CassetteError as problem:
            return problem
        return None

    def _pause(self) -> float:
        """Milliseconds since the last call."""
        now = time.monotonic()
        pause, self._last = now - self._last, now
        return round(pause * 1000, 1)


class _RecordedBody:
    """Passes a body on, piece by piece, and writes the entry when it is closed."""

    def __init__(self, response: OpenResponse, recording: _Recording) -> None:
        self._response = response
        self._recording = recording
        self._ended = False
        self._cut = False
        self._error: Exception | None = None
        self._closed = False

    async def read(self) -> bytes:
        """The next bytes, empty at the end."""
        try:
            chunk = await self._response.read()
        except asyncio.CancelledError:
            self._cut = True
            raise
        except Exception as error:
            self._error = error
            raise
        if chunk:
            self._recording.add(chunk)
        else:
            self._ended = True
        return chunk

    async def close(self) -> None:
        """Write the entry, and close the response."""
        if self._closed:
            return
        self._closed = True
        # A timeout cancels too, but has withdrawn its cancellation by now.
        task = asyncio.current_task()
        cancelled = self._cut and task is not None and task.cancelling() > 0
        error = TimeoutError() if self._cut and not cancelled else self._error
        problem = self._recording.keep(ended=self._ended, error=error)
        await self._response.close()
        if problem is not None and not cancelled:
            raise problem


async def _played(entry: CassetteEntry, model: Model, cassette: Cassette) -> OpenResponse:
    body = _PlayedBody(entry, model, cassette)
    if entry.status is None:
        await body.read()
    return OpenResponse(entry.status or _OK, entry.headers, body.read, body.close)


class _PlayedBody:
    """A recorded body, which ends as the real one did."""

    def __init__(self, entry: CassetteEntry, model: Model, cassette: Cassette) -> None:
        self._entry = entry
        self._model = model
        self._pace = cassette.pace
        self._margin = cassette.margin
        self._chunks = iter(entry.chunks)
        self._began = time.monotonic()

    async def read(self) -> bytes:
        """The next bytes, empty at the end."""
        delay, chunk = next(self._chunks, (self._entry.end_ms, None))
        await asyncio.sleep(delay / 1000 if self._pace else 0)
        if chunk is not None:
            return chunk or await self.read()
        if self._entry.end == "eof":
            return b""
        if self._entry.end in ERRORS:
            raise ERRORS[self._entry.end](self._entry.message, provider=self._model.provider, model=self._model.id)
        await asyncio.sleep(max(0.0, self._began + self._entry.duration + self._margin - time.monotonic()))
        raise asyncio.CancelledError

    async def close(self) -> None:
        """Do not close anything."""
