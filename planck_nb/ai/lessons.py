"""Lessons from refusals: another form for the request, tried once.

A lesson changes `ServerRules` for one model at one address. Sentences are recognised by their words, because servers
with the same format differ in status and code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of, has_address, rules_of
from planck_nb.ai.request import ToolSpec
from planck_nb.ai.schemas.fitted_tools import tool_key
from planck_nb.ai.schemas.schema_rules import NARROW
from planck_nb.ai.server_rules import NO_SIGNATURE, CallIds, ServerRules
from planck_nb.base.errors import BadRequestError, ContextOverflowError, ProviderError
from planck_nb.base.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class Lesson:
    """A change to a server's rules.

    Args:
        changes: Fields in `ServerRules` with their new values. A set is added to the one before.
        sentence: What the person should know; empty if only the request's form changes.

    Example:
        >>> Lesson((("alternates", True),)).applied_to(ServerRules()).alternates
        True
    """

    changes: tuple[tuple[str, object], ...]
    sentence: str = ""

    def applied_to(self, rules: ServerRules) -> ServerRules:
        """Change the rules.

        Args:
            rules: The rules so far.

        Returns:
            The rules from now on; equal to those so far if they have been like this already.
        """
        values: dict[str, Any] = dict(self.changes)
        for name, value in values.items():
            if isinstance(value, frozenset):
                values[name] = getattr(rules, name) | value
        return replace(rules, **values)


class Lessons:
    """A client's lessons, by model and address."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[Lesson, ...]] = {}

    def add(self, model: Model, lessons: Iterable[Lesson]) -> None:
        """Remember lessons about the model at its address."""
        place = _place(model)
        earlier = self._known.get(place, ())
        self._known[place] = (*earlier, *(lesson for lesson in lessons if lesson not in earlier))

    def applied_to(self, model: Model) -> Model:
        """The model with the rules its server has taught."""
        if not self._known or not has_address(model):
            return model
        return with_lessons(model, self._known.get(_place(model), ()))


def with_lessons(model: Model, lessons: Iterable[Lesson]) -> Model:
    """The model with changed rules."""
    rules = first = rules_of(model)
    for lesson in lessons:
        rules = lesson.applied_to(rules)
    return model if rules == first else replace(model, rules=rules)


def _place(model: Model) -> tuple[str, str, str]:
    return base_url_of(model), model.id, model.api


def lessons_of(error: ProviderError, model: Model, tools: Sequence[ToolSpec], body: JsonObject) -> Iterator[Lesson]:
    """Yield lessons from a refusal, the most likely first.

    Args:
        error: The refusal.
        model: The model, with the rules for this request.
        tools: The tools in the conversation.
        body: The refused body.

    Yields:
        Lessons; one without effect has been followed already.
    """
    if not isinstance(error, BadRequestError) or isinstance(error, ContextOverflowError):
        return
    refusal = _Refusal(error.words or str(error), model, rules_of(model), tools, body)
    for teach in _TEACHERS:
        yield from teach(refusal)


@dataclass(frozen=True, slots=True)
class _Refusal:
    words: str
    model: Model
    rules: ServerRules
    tools: Sequence[ToolSpec]
    body: JsonObject

    def says(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(self.words) is not None


_Teacher: TypeAlias = Callable[[_Refusal], Iterator[Lesson]]


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE | re.DOTALL)


_REASONING = r"(reasoning_content|reasoning_details|`?reasoning`? (field|content)|thinking)"
_REQUIRED = _pattern(
    # DeepSeek: https://github.com/MoonshotAI/kimi-cli/issues/2141
    r"reasoning_content.{0,60}must be (passed|sent|included|provided)",
    # https://github.com/abhigyanpatwari/GitNexus/issues/43
    r"missing `?reasoning_content",
    # Kimi: https://github.com/agentscope-ai/QwenPaw/issues/433
    r"reasoning_content is (missing|required)",
    # https://github.com/NousResearch/hermes-agent/issues/16388
    r"must include `?reasoning_content",
)
_REFUSED_REASONING = _pattern(
    rf"{_REASONING}.{{0,60}}(unsupported|not supported|not (allowed|permitted|accepted)|forbidden|unexpected|unknown)",
    rf"(unsupported|not support|unexpected|unknown|unrecognized|extra_forbidden|extra inputs).{{0,80}}{_REASONING}",
)
_BESIDE = _pattern(r"(content and thinking|thinking and content|both content and (reasoning|thinking))")
_ROLES = _pattern(
    # Templates of Mistral, Gemma and others: https://github.com/mistralai/mistral-vibe/issues/255
    r"roles must alternate|alternating user|must alternate (between )?user",
    # Mistral's own API: https://github.com/zed-industries/zed/issues/37021
    r"unexpected role '\w+' after role '\w+'|expected last role user",
    r"(consecutive|multiple) (user|assistant|messages)|(messages|roles) .{0,40}same role",
    r"(last|final) message must (be|have|not)|must end with a user",
)
_SYSTEM = _pattern(
    # Gemma's template, and o1-mini: https://github.com/PromtEngineer/localGPT/issues/720
    r"system (role|message)s?.{0,20} not (be )?(supported|allowed|used)|(does|do) not support ['\"`]?system",
    r"only user(,| and) assistant( and tool)? roles are supported",
)
_IDS = _pattern(
    r"tool[_ ]?call[_ ]?id.{0,80}(must|should|length|pattern|invalid|expected|too long)",
    r"(tool_use|tool_calls?|call)\W{0,3}(\d+\W{1,3})?(tool_use_)?id.{0,80}(must|should|match|pattern|too long|length)",
    r"invalid.{0,30}(tool[_ ]?call[_ ]?id|call_id)",
)
_LENGTH = re.compile(r"length of (\d+)")
_OUTPUT = _pattern(
    r"response_format|json_schema|output_config|output_format|structured[- ]outputs?|text\.format|guided"
)
_NULL = _pattern(
    r"content.{0,60}(got null|null value|must not be null|cannot be null|should be a valid string|is required)",
    r"(null|None|nil).{0,40}content|missing.{0,20}`?content`?\b",
    r"content['\"`]?( type: <nil>| must be a string| to be a string)",
)
_SIGNATURE = _pattern(r"missing (a )?`?thought_?signature|thought_?signature.{0,30}(missing|required)")
_SCHEMA = _pattern(
    r"invalid (json )?schema",
    r"schema.{0,60}(not support|unsupported|invalid|missing|must|conver|exceed|too (deep|complex))",
    r"function.{0,20}(parameters|declaration)|input_schema|tools?.{0,40}(schema|parameters)|grammar",
)
_NOT_OF_A_TOOL = _pattern(r"signature|tool_call_id|tool_use_id|tool_result|role\b|messages[.\[]\d")
_POSITION = re.compile(r"(?:function_?declarations|tools|functions)(?:\[|\.)(\d+)", re.IGNORECASE)

_FIELD = _pattern(
    r"property '([\w.\[\]]+)' is unsupported",  # Groq, Cerebras
    r"unrecognized (?:request )?(?:argument|key|field)s?(?: supplied)?:? ['\"`]?([\w.\[\]]+)",
    r"(?:unknown|unsupported|unexpected|invalid) (?:parameter|field|name|argument|value|key)s?:? "
    r"\\?['\"`]([\w.\[\]]+)",
    r"unexpected keyword argument '(\w+)'",
    r"additional properties are not allowed \('(\w+)' w",
    r"([\w.\[\]]+): extra inputs are not permitted",
    r"argument not supported on this model: (\w+)",
    r"extra_forbidden.{0,40}?loc\W+([\w\s,'\"]+?)\]",
    r"loc\W+([\w\s,'\"]+?)\].{0,80}?(?:extra_forbidden|extra inputs)",
    r"(?:parameter|field|argument) ['\"`]?(\w+)['\"`]? is not (?:supported|allowed|permitted|recogni[sz]ed)",
    r"['\"`](\w+)['\"`] is not (?:supported|allowed|permitted)",
    r"(?:does|do) not support (?:the )?(?:parameter |option |field )?['\"`]?(\w+)['\"`]?",
)
_ESSENTIAL = frozenset({"model", "messages", "input", "contents", "stream", "tools"})
_LIMITS = ("max_tokens", "max_completion_tokens")


def _of_signatures(refusal: _Refusal) -> Iterator[Lesson]:
    if refusal.says(_SIGNATURE):
        yield Lesson((("call_signature", NO_SIGNATURE),))


def _of_tools(refusal: _Refusal) -> Iterator[Lesson]:
    """Narrow schemas, or leave out a tool named in the refusal."""
    if not refusal.tools or not refusal.says(_SCHEMA) or refusal.says(_NOT_OF_A_TOOL):
        return
    names = _sent_names(refusal.body)
    name = next((name for name in names if re.search(rf"['\"`]{re.escape(name)}['\"`]", refusal.words)), None)
    if name is None and (positions := _POSITION.findall(refusal.words)):
        place = int(positions[-1])
        name = names[place] if place < len(names) else None
    if name is None and refusal.says(_OUTPUT):
        return
    yield Lesson((("tool_schemas", NARROW),))
    tool = next((tool for tool in refusal.tools if tool.name == name), None)
    if tool is not None:
        yield Lesson(
            (("refused_tools", frozenset({tool_key(tool)})),),
            f"{refusal.model} does not accept the tool {tool.name}, so the conversation goes on without it; correct "
            "its schema, or remove it.",
        )


def _sent_names(body: JsonObject) -> list[str]:
    """Names in the body's tools, in their order."""
    return [
        str(declaration.get("name") or declaration.get("type") or "")
        for tool in body.get("tools") or ()
        for declaration in tool.get("functionDeclarations") or (tool.get("function") or tool,)
    ]


def _of_reasoning(refusal: _Refusal) -> Iterator[Lesson]:
    if refusal.says(_REQUIRED):
        yield Lesson((("reasoning", "required"),))
    if refusal.says(_BESIDE):
        yield Lesson((("text_beside_reasoning", False),))


def _of_roles(refusal: _Refusal) -> Iterator[Lesson]:
    if refusal.says(_SYSTEM):
        yield Lesson((("system_role", False),))
    if refusal.says(_ROLES):
        yield Lesson((("alternates", True),))
        yield Lesson((("system_role", False), ("alternates", True)))


def _of_ids(refusal: _Refusal) -> Iterator[Lesson]:
    if refusal.says(_IDS):
        length = _LENGTH.search(refusal.words)
        # Nine letters and digits are accepted by every server whose rule is known.
        yield Lesson((("call_ids", CallIds("a-zA-Z0-9", int(length[1]) if length else 9, exact=True)),))


def _of_output(refusal: _Refusal) -> Iterator[Lesson]:
    if refusal.says(_OUTPUT) and any(name in refusal.body for name in ("response_format", "text", "output_config")):
        if refusal.rules.strict:
            yield Lesson((("strict", False),))
        sentence = (
            f"{refusal.model} does not hold its answer to a schema, so the schema is in the prompt; an answer that "
            "does not match it is corrected once."
        )
        yield Lesson((("output_control", "json_object"),), sentence)
        yield Lesson((("output_control", "prompt"),), sentence)


def _of_fields(refusal: _Refusal) -> Iterator[Lesson]:
    """Leave out a field unknown to the server."""
    body = refusal.body
    for match in _FIELD.finditer(refusal.words):
        path = next(filter(None, match.groups()))
        name = (re.findall(r"[A-Za-z_]\w*", path) or [""])[-1]
        if name in _LIMITS and name in body:
            other = _LIMITS[name == _LIMITS[0]]
            yield Lesson((("limit_field", other),))
        elif name in body and name not in _ESSENTIAL:
            yield Lesson((("refused_fields", frozenset({name})),))
        elif any(_has(message, name) for message in body.get("messages") or ()):
            yield Lesson((("refused_in_messages", frozenset({name})),))
    if refusal.says(_REFUSED_REASONING) and not refusal.says(_REQUIRED):
        yield Lesson((("reasoning", "refused"),))


def _has(message: Any, name: str) -> bool:  # noqa: ANN401 - any JSON value
    if not isinstance(message, dict) or name in {"role", "content"}:
        return False
    return name in message or any(name in call for call in message.get("tool_calls") or ())


def _of_null(refusal: _Refusal) -> Iterator[Lesson]:
    if refusal.says(_NULL):
        yield Lesson((("null_content", False),))


_TEACHERS: tuple[_Teacher, ...] = (
    _of_signatures,
    _of_reasoning,
    _of_roles,
    _of_ids,
    _of_output,
    _of_tools,
    _of_fields,
    _of_null,
)
