"""What the next request leaves out, after one was refused for an image, a document or a video.

What was refused stays in the conversation, so that every later request would be refused for it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from planck_nb.agent.context.sendable import MediaMessage, SendableHistory, count_kinds, latest_reply
from planck_nb.ai.messages import Message, ToolResultMessage, UserMessage
from planck_nb.ai.models import Model
from planck_nb.ai.status_errors import is_about_documents, is_about_unreadable_images
from planck_nb.base.errors import PlanckError, ProviderError, UnsupportedFeatureError

_DOCUMENTS = frozenset({"file"})
_IMAGES = frozenset({"image"})
_MEDIA = frozenset({"image", "file", "video"})

_UNREADABLE = "because the model could not read it"
_ONE_UNREADABLE = {
    _DOCUMENTS: "because the model could not read one of the documents",
    _IMAGES: "because the model could not read one of the images",
}
_UNSUPPORTED = "because the model could not be sent the prompt as it was"


class RefusedMedia:
    """Decides for one turn what is left out of its requests.

    The prompts of the turn itself fail with the sentence about what was refused, and only later requests are without
    it: whoever sent the document waits for an answer about it. Earlier prompts are sent without it at once.

    Args:
        sendable: Leaves it out of the requests to the model.
        check: Builds a request of these messages alone for the model. Raises `UnsupportedFeatureError` if it cannot.
    """

    def __init__(
        self, sendable: SendableHistory, check: Callable[[Sequence[Message], Model], Awaitable[object]]
    ) -> None:
        self._sendable = sendable
        self._check = check
        self._tried: dict[tuple[str, frozenset[str]], list[MediaMessage]] = {}
        """By model and kinds, the messages without whose parts a request was sent once more."""

    async def leave_out(
        self, error: PlanckError, messages: Sequence[Message], prompts: Collection[UserMessage], model: Model
    ) -> bool:
        """Leave out of later requests to the model what it refused.

        Args:
            error: How the request failed.
            messages: The messages that it had.
            prompts: The prompts of the turn.
            model: The model that was asked.

        Returns:
            Whether the same request can be sent again without it.
        """
        if isinstance(error, UnsupportedFeatureError) and error.about_media:
            own, others = self._messages_with(_MEDIA, messages, prompts, model)
            if own and not await self._can_be_sent(own, model):
                self._sendable.leave_out(own, model, _MEDIA, _UNSUPPORTED)
                return False
            self._sendable.leave_out(others, model, _MEDIA, _UNSUPPORTED)
            return bool(others)
        if isinstance(error, ProviderError) and is_about_documents(error):
            return self._leave_out_unreadable(_DOCUMENTS, messages, prompts, model)
        if isinstance(error, ProviderError) and is_about_unreadable_images(error):
            return self._leave_out_unreadable(_IMAGES, messages, prompts, model)
        return False

    def _leave_out_unreadable(
        self, kinds: frozenset[str], messages: Sequence[Message], prompts: Collection[UserMessage], model: Model
    ) -> bool:
        """Find out whose parts the server could not read, which it does not say: the turn's prompts' or others'."""
        own, others = self._messages_with(kinds, messages, prompts, model)
        tried = self._tried.setdefault((str(model), kinds), [])
        if others:
            # What is newer than the latest reply was not sent before; the rest was perhaps read by this very model.
            new = messages[latest_reply(messages) :]
            refused = [each for each in others if any(each is message for message in new)] or others
            tried.extend(refused)
            self._sendable.leave_out(refused, model, kinds, _clause(refused, kinds))
            return True
        if own:
            self._sendable.send_again(tried, model)
            self._sendable.leave_out(own, model, kinds, _clause(own, kinds))
        return False

    def _messages_with(
        self, kinds: frozenset[str], messages: Sequence[Message], prompts: Collection[UserMessage], model: Model
    ) -> tuple[list[MediaMessage], list[MediaMessage]]:
        """The messages whose parts of these kinds were sent: the prompts of the turn, and all others."""
        own: list[MediaMessage] = []
        others: list[MediaMessage] = []
        for message in messages:
            if not isinstance(message, (UserMessage, ToolResultMessage)) or not count_kinds(message, kinds):
                continue
            if not self._sendable.leaves_out(message, model):
                (own if any(message is prompt for prompt in prompts) else others).append(message)
        return own, others

    async def _can_be_sent(self, messages: Sequence[Message], model: Model) -> bool:
        try:
            await self._check(messages, model)
        except UnsupportedFeatureError:
            return False
        return True


def _clause(messages: Sequence[MediaMessage], kinds: frozenset[str]) -> str:
    parts = sum(count_kinds(message, kinds) for message in messages)
    return _UNREADABLE if parts == 1 else _ONE_UNREADABLE[kinds]
