"""The messages of a conversation as a model can be sent them: what it cannot read is replaced by a note.

One image that no vendor can decode, or that the current model does not accept, would make every later request fail;
so would a document that its server has refused.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from planck_nb.agent.calling.image_check import checked, placeholder, unreadable_by
from planck_nb.agent.context.senders import with_sender
from planck_nb.ai.messages import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
    UserPart,
    VideoPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import rules_of
from planck_nb.base.threads import run_in_thread

_CHECK_IN_THREAD_FROM = 1_000_000
"""Characters of images that are checked in a thread; the event loop would be blocked for more than 10 ms."""


MediaMessage: TypeAlias = UserMessage | ToolResultMessage
"""A message that may have images, documents or videos."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Parts of one message that are left out.

    Args:
        kinds: The types of the parts.
        problem: Why they are left out, as a clause.
        only: The parts of these types that are left out; empty for all of them.
    """

    kinds: frozenset[str]
    problem: str
    only: tuple[UserPart, ...] = ()

    def covers(self, part: UserPart) -> bool:
        """Whether the part is left out."""
        return part.type in self.kinds and (not self.only or _is_one_of(part, self.only))


@dataclass(frozen=True, slots=True)
class _RefusedParts:
    """All that is left out of one message.

    Args:
        message: The message, which is kept so that no other object gets its id.
        refusals: What was refused, the latest first.
    """

    message: MediaMessage
    refusals: tuple[_Refusal, ...]

    def problem_of(self, part: UserPart) -> str:
        """Why the part is left out; empty if it is sent."""
        return next((refusal.problem for refusal in self.refusals if refusal.covers(part)), "")


class SendableHistory:
    """Prepares the messages of an agent for its model. Messages that were prepared before are not looked at again.

    `notes` are sentences about what is not sent, each once; the caller that reports them empties the list.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._noted: set[str] = set()
        self._model: Model | None = None
        self._known: list[Message] = []
        self._replaced: dict[int, Message] = {}
        self._latest: tuple[Sequence[Message], Sequence[Message]] = (), ()
        """The messages that were prepared last, and the result: each request needs them twice."""
        self._refused: dict[tuple[str, str, str | None], dict[int, _RefusedParts]] = {}
        """What each model has refused, by the ids of the messages."""
        self._checked: Message | None = None
        """The latest message whose images were checked."""

    async def check_images(self, messages: Sequence[Message]) -> None:
        """Check the images of new messages, so that `fit` knows the results: in a thread if they are large."""
        start = len(messages)
        while start and messages[start - 1] is not self._checked:
            start -= 1
        images = [image for message in messages[start:] for image in _images(message)]
        if sum(len(image.data or "") for image in images) >= _CHECK_IN_THREAD_FROM:
            await run_in_thread(lambda: [checked(image) for image in images])
        self._checked = messages[-1] if messages else None

    def leave_out(
        self,
        messages: Iterable[MediaMessage],
        model: Model,
        kinds: frozenset[str],
        problem: str,
        only: Sequence[UserPart] = (),
    ) -> None:
        """Leave parts of messages out of what the model is sent from now on.

        Args:
            messages: The messages, as they are in the conversation.
            model: The model that refused them.
            kinds: The types of the parts.
            problem: Why they are left out, as a clause.
            only: Those parts of the users' messages that are left out, besides any that are already; empty for all.
        """
        of_model = self._refused.setdefault(_key(model), {})
        for message in messages:
            parts = tuple(part for part in message.content if _is_one_of(part, only)) if message.type == "user" else ()
            if only and not parts:
                continue
            known = of_model.get(id(message))
            refusals = (_Refusal(kinds, problem, parts), *(() if known is None else known.refusals))
            of_model[id(message)] = _RefusedParts(message, refusals)
        self._model, self._latest = None, ((), ())

    def send_again(self, messages: Iterable[MediaMessage], model: Model, kinds: frozenset[str]) -> None:
        """Send again the parts of the messages that were left out as parts of these types."""
        of_model = self._refused.get(_key(model), {})
        for message in messages:
            if (known := of_model.pop(id(message), None)) is None:
                continue
            if others := tuple(refusal for refusal in known.refusals if refusal.kinds != kinds):
                of_model[id(message)] = _RefusedParts(message, others)
        self._model, self._latest = None, ((), ())

    def media(self, message: MediaMessage, model: Model, kinds: frozenset[str]) -> list[UserPart]:
        """The parts of these types that the model is sent of a message: those that it has not refused."""
        refused = self._refused.get(_key(model), {}).get(id(message))
        if message.type == "user":
            parts = [part for part in message.content if part.type in kinds]
        else:
            parts = [image for result in message.content for image in result.images] if "image" in kinds else []
        return parts if refused is None else [part for part in parts if not refused.problem_of(part)]

    def fit(self, messages: Sequence[Message], model: Model) -> Sequence[Message]:
        """The messages as they can be sent to the model; the same objects if it can read all of them.

        What follows the latest reply is only checked for images that cannot be decoded. Anything else in it that the
        model does not accept is refused with a sentence by its wire format, and left out of later requests only.
        """
        is_same = model is self._model or model == self._model
        if is_same and messages is self._latest[0] and isinstance(messages, tuple):  # which cannot have changed
            return self._latest[1]
        fitting = self._fit(messages, model, is_same=is_same)
        self._latest = messages, fitting
        return fitting

    def _fit(self, messages: Sequence[Message], model: Model, *, is_same: bool) -> Sequence[Message]:
        latest = latest_reply(messages)
        known = self._known
        if not is_same or len(known) > latest or not all(map(operator.is_, known, messages)):
            self._model, self._known, self._replaced = model, [], {}
        for index in range(len(self._known), latest):
            message = self._fitting(messages[index], model, answered=True)
            if message is not messages[index]:
                self._replaced[index] = message
        self._known.extend(messages[len(self._known) : latest])
        newest = [self._fitting(message, model, answered=False) for message in messages[latest:]]
        if not self._replaced and all(map(operator.is_, newest, messages[latest:])):
            return messages
        return [*(self._replaced.get(index, message) for index, message in enumerate(messages[:latest])), *newest]

    def _fitting(self, message: Message, model: Model, *, answered: bool) -> Message:
        refused = self._refused.get(_key(model), {}).get(id(message)) if self._refused else None
        if isinstance(message, UserMessage):
            parts = [
                TextPart(self._left_out(part, model, problem))
                if refused is not None and (problem := refused.problem_of(part))
                else self._part(part, model, answered=answered)
                for part in message.content
            ]
            if message.sender_name is not None:
                return UserMessage(with_sender(parts, message.sender_name, message.purpose))
            return message if all(map(operator.is_, parts, message.content)) else UserMessage(parts)
        if isinstance(message, ToolResultMessage) and any(part.images for part in message.content):
            results = tuple(self._result(part, model, refused) for part in message.content)
            if not all(map(operator.is_, results, message.content)):
                return ToolResultMessage(results)
        return message

    def _part(self, part: UserPart, model: Model, *, answered: bool) -> UserPart:
        if isinstance(part, ImagePart):
            if answered and not model.takes("image"):
                return TextPart(self._left_out(part, model, "because the model cannot look at images"))
            problem = unreadable_by(part, model.provider)
            return TextPart(self._left_out(part, model, problem)) if problem else checked(part)[0]
        if isinstance(part, VideoPart) and answered and not rules_of(model).takes_videos:
            return TextPart(self._left_out(part, model, "because the model cannot watch videos"))
        return part

    def _result(self, result: ToolResultPart, model: Model, refused: _RefusedParts | None) -> ToolResultPart:
        images: list[ImagePart] = []
        words: list[str] = []
        for image in result.images:
            problem = unreadable_by(image, model.provider)
            if problem := problem or ("" if refused is None else refused.problem_of(image)):
                words.append(self._left_out(image, model, problem))
            else:
                images.append(checked(image)[0])
        if not words and all(map(operator.is_, images, result.images)):
            return result
        return replace(result, text="\n".join(filter(None, [result.text, *words])), images=tuple(images))

    def _left_out(self, part: UserPart, model: Model, problem: str) -> str:
        what = {"image": "An image", "video": "A video"}.get(part.type, "A document")
        if isinstance(part, FilePart):
            what = f"The document {part.name!r}"
        sentence = f"{what} is not sent to {model}, {problem}; it reads a note in its place."
        if sentence not in self._noted:
            self._noted.add(sentence)
            self.notes.append(sentence)
        match part:
            case ImagePart():
                return placeholder(part, problem)
            case FilePart():
                return f"[file {part.name}: left out, {problem}]"
            case VideoPart():
                return f"[video {part.url or part.mime}: left out, {problem}]"
            case TextPart():
                return part.text


def _is_one_of(part: object, parts: Iterable[UserPart]) -> bool:
    """Whether the part is one of these objects: a message can have equal parts, of which only one is to blame."""
    return any(part is each for each in parts)


def _images(message: Message) -> Iterator[ImagePart]:
    if message.type == "user":
        yield from (part for part in message.content if part.type == "image")
    elif message.type == "tool_result":
        for result in message.content:
            yield from result.images


def _key(model: Model) -> tuple[str, str, str | None]:
    return model.provider, model.id, model.base_url


def latest_reply(messages: Sequence[Message]) -> int:
    """The index of the latest reply, 0 without one."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].type == "assistant":
            return index
    return 0
