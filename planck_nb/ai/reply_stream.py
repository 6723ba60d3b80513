"""A model's answer while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from types import TracebackType
from typing import Self

from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.messages import AssistantMessage, Usage
from planck_nb.ai.models import Model
from planck_nb.ai.status_errors import truncated
from planck_nb.ai.stream_events import StreamEvent


class Stream:
    """A model's answer: an async iterator of `StreamEvent`, and a context manager that closes the connection.

    Iterating raises `ModelError` or `ProviderError`; what was received until then stays in `message`. Only one task may
    iterate. `Client.stream` makes streams.

    Args:
        model: The model that answers.
        builder: Collects the message.
        answer: Begins the request: called with `continues`, it yields the events in batches.
        continues: Whether the request continues a turn.
    """

    def __init__(
        self,
        model: Model,
        builder: MessageBuilder,
        answer: Callable[..., AsyncGenerator[list[StreamEvent], None]],
        *,
        continues: bool,
    ) -> None:
        self.model = model
        self.continues = continues
        """Whether the request continues a turn, whose work would be lost, so that it is sent again for longer if it
        fails. It may be set before the first event is read; by default it is true after results of tools."""
        self._builder = builder
        self._answer = answer
        self._batches: AsyncGenerator[list[StreamEvent], None] | None = None
        self._pending: list[StreamEvent] = []
        self._message: AssistantMessage | None = None

    @property
    def message(self) -> AssistantMessage:
        """The message: complete, or as far as it was received.

        Until the stream has ended its `stop_reason` is "aborted", and stays so if nothing more is read.
        """
        return self._message or self._builder.build("aborted")

    @property
    def usage(self) -> Usage | None:
        """The token counts that the provider has reported so far, None if it has reported none."""
        return self._builder.usage

    @property
    def is_sent(self) -> bool:
        """Whether a request was sent that a server may have begun to answer."""
        return self._builder.is_sent

    @property
    def is_finished(self) -> bool:
        """Whether the provider has ended the message, so that its usage is complete."""
        return self._builder.stop_reason is not None

    def written_text(self) -> str:
        """Join all that the model has written so far.

        Returns:
            The text, the thinking, and the names and arguments of calls, complete or not.
        """
        return self._builder.written_text()

    async def batches(self) -> AsyncIterator[list[StreamEvent]]:
        """Iterate over the events in lists.

        Yields:
            One list for each piece of data from the network.
        """
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def next_batch(self) -> list[StreamEvent] | None:
        """Read the next of `batches`, which is the cheapest way to read.

        Returns:
            The events, None after the last.
        """
        if self._message is not None:
            return None
        if self._batches is None:
            self._batches = self._answer(continues=self.continues)
        try:
            return await anext(self._batches)
        except StopAsyncIteration:
            if self._builder.stop_reason is None:
                error = truncated(self.model)
                self._message = self._builder.build("error", str(error))
                raise error from None
            self._message = self._builder.build()
            return None
        except (asyncio.CancelledError, GeneratorExit):
            self._message = self._builder.build("aborted")
            raise
        except Exception as error:
            self._message = self._builder.build("error", str(error))
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._pending:
            batch = await self.next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._pending = batch[::-1]
        return self._pending.pop()

    async def aclose(self) -> None:
        """Stop reading and close the connection. The message stays as far as it was received."""
        self._pending.clear()
        if self._batches is not None:
            await self._batches.aclose()
        if self._message is None:
            self._message = self._builder.build("aborted")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
