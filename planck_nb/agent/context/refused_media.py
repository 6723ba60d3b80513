"""What the next request leaves out, after one was refused for an image, a document or a video.

What was refused stays in the conversation, so every later request would be refused for it again.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

from planck_nb.agent.context.sendable import MediaMessage, SendableHistory, latest_reply
from planck_nb.ai.messages import FilePart, Message, ToolResultMessage, UserMessage, UserPart
from planck_nb.ai.models import Model
from planck_nb.ai.status_errors import is_about_documents, is_about_unreadable_images
from planck_nb.base.errors import PlanckError, ProviderError, UnsupportedFeatureError

Check: TypeAlias = Callable[[Sequence[Message], Model], Awaitable[object]]

_DOCUMENTS = frozenset({"file"})
_IMAGES = frozenset({"image"})
_MEDIA = frozenset({"image", "file", "video"})

_UNREADABLE = "because the model could not read it"
_ONE_UNREADABLE = {
    _DOCUMENTS: "because the model could not read one of the documents",
    _IMAGES: "because the model could not read one of the images",
}
_POSITION = re.compile(r"\b(?:messages|contents)[.\[]\d+\]?\.(?:content|parts)[.\[](\d{1,4})\b")
_UNSUPPORTED = "because the model could not be sent the prompt as it was"


class RefusedMedia:
    """Decides for one turn what is left out of its requests.

    The prompts of the turn itself fail with the sentence about what was refused, and only later requests are without
    it: whoever sent the document waits for an answer about it. Earlier prompts are sent without it at once.

    Args:
        sendable: Leaves it out of the requests to the model.
    """

    def __init__(self, sendable: SendableHistory) -> None:
        self._sendable = sendable
        self._tried: dict[tuple[str, frozenset[str]], list[MediaMessage]] = {}
        """By model and kinds, the messages without whose parts a request was sent once more."""

    async def leave_out(
        self,
        error: PlanckError,
        messages: Sequence[Message],
        prompts: Collection[UserMessage],
        model: Model,
        check: Check,
    ) -> bool:
        """Leave out of later requests to the model what it refused.

        Args:
            error: How the request failed.
            messages: The messages that it had.
            prompts: The prompts of the turn.
            model: The model that was asked.
            check: Builds a request of messages alone for it. Raises `UnsupportedFeatureError` if it cannot.

        Returns:
            Whether the same request can be sent again without it.
        """
        if isinstance(error, UnsupportedFeatureError) and error.about_media:
            own, others = self._messages_with(_MEDIA, messages, prompts, model)
            if own and not await _can_be_sent(own, model, check):
                self._sendable.leave_out(own, model, _MEDIA, _UNSUPPORTED)
                return False
            self._sendable.leave_out(others, model, _MEDIA, _UNSUPPORTED)
            return bool(others)
        if isinstance(error, ProviderError) and is_about_documents(error):
            return self._leave_out_unreadable(str(error), _DOCUMENTS, messages, prompts, model)
        if isinstance(error, ProviderError) and is_about_unreadable_images(error):
            return self._leave_out_unreadable(str(error), _IMAGES, messages, prompts, model)
        return False

    def _leave_out_unreadable(
        self,
        words: str,
        kinds: frozenset[str],
        messages: Sequence[Message],
        prompts: Collection[UserMessage],
        model: Model,
    ) -> bool:
        """Find out whether the server could not read the turn's own prompts or other messages, which it seldom says."""
        own, others = self._messages_with(kinds, messages, prompts, model)
        tried = self._tried.setdefault((str(model), kinds), [])
        if others:
            # What is newer than the latest reply was not sent before; the rest was perhaps read by this very model.
            new = messages[latest_reply(messages) :]
            refused = [each for each in others if any(each is message for message in new)] or others
            tried.extend(refused)
            self._leave_out_blamed(words, refused, model, kinds)
            return True
        if own:
            self._sendable.send_again(tried, model, kinds)
            self._leave_out_blamed(words, own, model, kinds)
        return False

    def _leave_out_blamed(
        self, words: str, messages: Sequence[MediaMessage], model: Model, kinds: frozenset[str]
    ) -> None:
        """Leave out the parts that are to blame, or all of the messages if that cannot be told."""
        sent = [part for message in messages for part in self._sendable.media(message, model, kinds)]
        blamed = blamed_parts(words, messages, sent)
        problem = _UNREADABLE if len(blamed or sent) == 1 else _ONE_UNREADABLE[kinds]
        self._sendable.leave_out(messages, model, kinds, problem, blamed)

    def _messages_with(
        self, kinds: frozenset[str], messages: Sequence[Message], prompts: Collection[UserMessage], model: Model
    ) -> tuple[list[MediaMessage], list[MediaMessage]]:
        """The messages whose parts of these kinds were sent: the prompts of the turn, and all others."""
        own: list[MediaMessage] = []
        others: list[MediaMessage] = []
        for message in messages:
            if not isinstance(message, (UserMessage, ToolResultMessage)):
                continue
            if self._sendable.media(message, model, kinds):
                (own if any(message is prompt for prompt in prompts) else others).append(message)
        return own, others


async def _can_be_sent(messages: Sequence[Message], model: Model, check: Check) -> bool:
    try:
        await check(messages, model)
    except UnsupportedFeatureError:
        return False
    return True


def blamed_parts(words: str, messages: Sequence[MediaMessage], sent: Sequence[UserPart]) -> list[UserPart]:
    """The images or documents among several that a server could not read; empty if that cannot be told.

    The server may name the file or the position of the part; otherwise a PDF that is incomplete is to blame.

    Args:
        words: What the server said.
        messages: The messages that have the parts.
        sent: The parts that it was sent.
    """
    files = [part for part in sent if isinstance(part, FilePart)]
    candidates: tuple[list[UserPart], ...] = (
        [part for part in _at_position(words, messages) if any(part is each for each in sent)],
        [part for part in files if "." in part.name and part.name in words],
        [part for part in files if _is_incomplete(part)],
    )
    return next((blamed for blamed in candidates if 0 < len(blamed) < len(sent)), [])


def _at_position(words: str, messages: Sequence[MediaMessage]) -> Sequence[UserPart]:
    """The part whose position the server names, if there is only one message that it can be in."""
    position = _POSITION.search(words)
    if position is None or len(messages) != 1 or messages[0].type != "user":
        return ()
    index = int(position[1])
    return messages[0].content[index : index + 1]


def _is_incomplete(part: FilePart) -> bool:
    """Whether a PDF has no beginning or no end, or is encrypted."""
    if part.mime != "application/pdf" or not part.data:
        return False
    try:
        data = base64.b64decode(part.data)
    except ValueError:
        return True
    return b"%PDF-" not in data[:1024] or b"%%EOF" not in data[-1024:] or b"/Encrypt" in data
