"""Turns a server's error into one of our exceptions, with a sentence that says what to do.

The same for every dialect: a dialect finds the status and the vendor's message, this module the class and the sentence.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json

from planck_nb.ai.context_windows import Refusal, is_about_window, read_refusal
from planck_nb.ai.models import Model
from planck_nb.ai.numbers import http_status
from planck_nb.ai.providers import base_url_of, key_variables_of
from planck_nb.ai.retries.rate_limit_headers import exhausted_until, retry_after
from planck_nb.ai.stream_events import StreamWarning
from planck_nb.base.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelLoadingError,
    NotFoundError,
    ProviderError,
    ProviderStatusError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamTruncated,
)

_FAILED = 500
_TOO_LARGE = 413
_TOO_MANY_REQUESTS = 429
_OVERFLOW_STATUSES = frozenset({400, 422, 424})
_MAX_QUOTE_LENGTH = 300
_MAX_EXAMINED = 8 * _MAX_QUOTE_LENGTH

_OVERFLOW = re.compile(
    "|".join(  # noqa: FLY002 - a list to read
        (
            # names of errors
            r"context_length_exceeded|exceed_context_size|model_context_window_exceeded|string_above_max_length",
            r"tokens_limit_reached|request_too_large",
            # the prompt, the input or the conversation is too long
            r"(prompt|input|conversation|context|messages?)( tokens| history)?( is| are)? (too|very) long",
            r"prompt is longer than|is too long to fit|total size of the request exceeds",
            r"(prompt|input|request|conversation) (has|contains|with) too many tokens",
            r"too many tokens( in (the )?prompt)?:|total (number of )?tokens.{0,40} exceeds? (the model's|max)",
            r"too large for model with|request body too large for .{0,80}max size",
            r"prompt exceeds max length|exceeds? (the )?max(imum)? (allowed )?(input|prompt|context|sequence) length",
            r"(prompt|input) (token count|tokens?|length).{0,60} (exceeds?|is (greater|larger|longer) than|is too)",
            r"maximum (prompt|input|context) length (is|of) \d+|range of input length should be",
            r"`?inputs`? (tokens \+ `?max_new_tokens`? )?must (be <=|have less than) \d+",
            r"must have less than \d+ tokens|reduce (the length of )?(your |the )?(messages?|prompt|input)\b",
            r"(input length and|input tokens plus|prompt plus) `?max_(new_|completion_)?tokens`? exceed",
            r"(request|prompt|input).{0,60}exceed(s|ed)? (the )?(model )?(token )?limit( of|:)? ?\(?\d+",
            r"(tokens in the|total number of tokens in the) (prompt|request) (cannot|must not) exceed",
            # the window is too small
            r"max(imum)? context length|context ?window|context size|maximum model length|max[_ ]?model[_ ]?len",
            r"context length (of|is) only \d+|(greater|longer|larger) than the (model('s)? )?context length",
            r"(exceeds?|exceeded|overflows?) .{0,40}(context length|context limit|max(imum)?[_ ]seq(uence)?[_ ]?len)",
            r"model (only )?supports (only )?up to \d+( tokens)?|context (length|limit)( has been)? (exceeded|reached)",
            r"token limit exceeded|context (the )?overflow|exceeds the model's maximum context",
            r"maximum number of tokens allowed",
            # something else that the length of the conversation causes
            r"max_tokens`? must be at least 1, got -\d|expected maxLength: \d+, actual: \d+",
            r"string with maximum length \d{5}",
        )
    ),
    re.IGNORECASE,
)
_NOT_OVERFLOW = re.compile(
    r"rate.?limit|too many requests|throttl|please wait|per day|per second"
    r"|`?max_(completion_|output_)?tokens`?:? (is too large|must be(?! at least 1, got -)|cannot|should)"
    r"|at most \d+ completion tokens|up to \d+ thinking|maximum tokens you requested"
    r"|string with maximum length \d{1,4}\b",  # a name or an id
    re.IGNORECASE,
)
_MAY_BE_OVERFLOW = re.compile(
    "|".join(  # noqa: FLY002 - a list to read
        (
            r"(tokens?|(prompt|input|context|sequence|messages?) (length|size))\b.{0,60}(exceed|too (long|large|many))",
            r"(tokens?|(prompt|input|context|sequence) length)\b.{0,60}(longer|larger|greater|more) than",
            r"tokens?\b.{0,60}(no more than|less than or equal to)",
            r"(exceed(s|ed|ing)?|(longer|larger|greater|more) than) .{0,60}(tokens?|context|sequence length)\b",
            r"\b(prompt|input|conversation|context|messages)\b.{0,40}\btoo long|too many (input|prompt) tokens",
            r"more tokens than|(prompt|input) .{0,40}exceeds? .{0,20}max(imum)? length",
        )
    ),
    re.IGNORECASE,
)
"""Sentences of servers that are not known, unless they are about something else with a length or a number of tokens."""
_OTHER_LENGTH = re.compile(
    r"output|completion|max_(new_)?tokens|thinking|reasoning|budget|\b(name|names|call_id|stop|tools?|functions?|schema)\b"
    r"|image|document|file|audio|video|quota|credit|balance|\bper\b|input should|deadline|time(d )?.?out",
    re.IGNORECASE,
)
_TOLD_IN_STREAM = re.compile(
    r"\d{3}|exceed|too long|too large|too many|(longer|larger|greater|more) than", re.IGNORECASE
)
_TOO_LARGE_FOR_A_MINUTE = re.compile(r"request too large .{0,120}tokens per min", re.IGNORECASE | re.DOTALL)
"""A request that is larger than what the account may send in a minute never passes."""
_QUOTA = re.compile(r"insufficient_quota|billing_error|credit balance|billing_hard_limit", re.IGNORECASE)
_BAD_KEY = re.compile(r"API_KEY_INVALID|api key (not valid|expired)", re.IGNORECASE)  # Google's, with status 400
_LOADING = re.compile(  # llama.cpp's and others'
    r"loading model|model( \S+)? is (\w+ )?loading|currently loading|unavailable_error", re.IGNORECASE
)
_TEMPLATE = re.compile(
    # Refusals by a chat template: https://github.com/mistralai/mistral-vibe/issues/255
    r"raise_exception|jinja|templateerror|\bat row \d+, column \d+|roles must alternate"
    # llama.cpp, for a message without content: https://github.com/ggml-org/llama.cpp/issues/13471
    r"|expected 'content' to be"
    r"|cannot pass both content and thinking|(apply|render|pars)\w*( \w+){0,3} (chat )?(template|input messages)",
    re.IGNORECASE,
)
_THINKING = re.compile(
    r"signature|thinking`? blocks?\b|(expected|cannot be) `?(redacted_)?thinking|reasoning`? (item|block)"
    r"|type 'reasoning'|encrypted[ _]content",
    re.IGNORECASE,
)
_IMAGES = re.compile(
    "|".join(  # noqa: FLY002 - a list to read
        (
            r"(image|vision|multimodal)s?( inputs?| content)?( is| are)? not (supported|enabled|allowed)",
            r"(do(es)? not|do(es)?n't|cannot|can't) (support|accept|process|handle) (any )?(input )?(image|vision)",
            r"(image|multimodal).{0,40}not a multimodal|not a multimodal model|provide the mmproj",
            r"no endpoints found that support image|image_url.{0,40}only supported|unknown variant `?image_url",
            r"at most 0 image|missing data required for image input",
        )
    ),
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    "|".join(  # noqa: FLY002 - a list to read
        (
            # it cannot be read
            r"(could not|cannot|unable to|failed to) (process|parse|read|open|decode)( \w+){0,4} (pdf|document|file)",
            r"(could not|cannot|unable to|failed to) (process|parse|read|open|decode) \S{1,200}\.pdf\b",
            r"(unable to|failed to|error while) (load|extract|download)\w*( \w+){0,4} (pdf|document|file)s?\b",
            r"\b(pdf|document)s?\b.{0,80}(not (a )?valid|corrupt|damaged|malformed|unreadable|encrypted|password)",
            r"\b(pdf|document)s?\b.{0,80}(unsupported|not supported|not be empty|is empty|has no pages)",
            r"\b(pdf|document|file)s?\b.{0,40}(could not|cannot|failed to) be (process|pars|read|open|decrypt|decod)",
            r"\bfile (is |was )?(corrupt|damaged|encrypted|password)|password[- ]protected",
            r"\b(invalid|unsupported|corrupt(ed)?|damaged|malformed|encrypted)[ _](\w+ ){0,2}(pdf|document|file)\b",
            r"document_parser_|\bfile_data\b|document\.source|document source bytes|context stuffing file type",
            # there is too much of it
            r"too many pages|maximum of \d+ (pdf )?pages|\bpage limit|number of pages.{0,40}exceed",
            r"referenced files bytes are too large",
            # the model or the server has no documents
            r"support (file|pdf|document)s? inputs?|(file|pdf|document) inputs? (is|are) not (supported|enabled)",
            r"invalid value: '?(input_)?file'?\.|unknown (part|content) type:? .?(input_)?(file|document)\b",
            r"unknown variant `?(input_)?(file|document)\b|unsupported content\[\]\.type",
            r"(mime|media)[ _]?type:? .{0,80}application/.{0,80}not supported",
            r"unsupported (mime|media) ?type:? .?application/",
        )
    ),
    re.IGNORECASE,
)
_UNREADABLE_IMAGES = re.compile(
    "|".join(  # noqa: FLY002 - a list to read
        (
            r"(could not|cannot|unable to|failed to) (process|parse|read|open|decode|load|identify)( \w+){0,2} image",
            r"\bimages?\b.{0,60}(could not|cannot|failed to) be (process|pars|read|open|load|decod|identif)",
            r"\bimages?\b( \w+){0,4} (is|are) not (a )?valid|not represent a valid image|not a valid image",
            r"\b(invalid|unsupported|corrupt(ed)?|damaged|malformed)[ _](\w+ )?image\b|\bimage: unknown format",
            r"\bimage (exceeds|dimensions exceed|is too (large|big|small))|\bimage dimensions exceed",
        )
    ),
    re.IGNORECASE,
)
_OF_ANOTHER_SERVER = "Provider returned error"
"""What OpenRouter says if the server that it asked refused the request. That server's words are in the metadata."""
_MEDIA_STATUSES = frozenset({400, 404, 415, 422, 500, 501})
_TITLE = re.compile(r"<title[^<>]*>([^<]*)</title>", re.IGNORECASE)


def status_error(
    model: Model,
    status: int,
    words: str,
    *,
    kind: str = "",
    headers: Mapping[str, str] | None = None,
) -> ProviderStatusError:
    """The error for an HTTP status, or for its equivalent inside a stream.

    Args:
        model: The model that was asked.
        status: The HTTP status, or the one that an error inside a stream is equivalent to.
        words: The vendor's message.
        kind: The vendor's own name for the error, if it gives one.
        headers: The headers of the answer, in which a server may say when to ask again.

    Returns:
        The error, to be raised. Its class depends on the status and the message.

    Raises:
        ConfigError: The address of the model is not an HTTP URL, or it has none.
    """
    headers = headers or {}
    wait = retry_after(headers)
    if wait is None and status == _TOO_MANY_REQUESTS:
        wait = exhausted_until(headers)
    error_class, happened, advice = _meaning(status, f"{kind} {words}")
    should_retry = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    facts = {
        "model": model,
        "id": model.id,
        "who": model.provider,
        "url": base_url_of(model),
        "key": (next(iter(key_variables_of(model)), "it")) if model.has_api_key else "whether it needs one",
        "pause": _duration(wait) if wait else "a while",
        "later": f"in {_duration(wait)}" if wait else "later",
    }
    quote = quoted(words)
    error = error_class(
        f"{happened.format(**facts)} ({status})" + (f': "{quote}"; ' if quote else "; ") + f"{advice.format(**facts)}.",
        status=status,
        retry_after=wait,
        should_retry=False if _is_refusal(status, f"{kind} {words}") else should_retry,
        provider=model.provider,
        model=model.id,
        request_id=headers.get("request-id") or headers.get("x-request-id"),
    )
    error.words = f"{kind} {words}"[:_MAX_EXAMINED]
    if isinstance(error, ContextOverflowError):
        error.about_window = is_about_window(status, f"{kind} {words}")
        refusal = read_refusal(words) if error.about_window else Refusal()
        error.tokens, error.input_tokens, error.limit = refusal.tokens, refusal.input_tokens, refusal.limit
    return error


_Meaning: TypeAlias = tuple[type[ProviderStatusError], str, str]

_OF_QUOTA: _Meaning = (
    QuotaExceededError,
    "The account at {who} has no quota left",
    "add credit or choose another model",
)
_OF_STATUS: Mapping[int, _Meaning] = {
    401: (AuthenticationError, "{who} did not accept the API key", "check {key}"),
    403: (AuthenticationError, "{who} does not allow this key to use {id}", "check the key's permissions"),
    404: (NotFoundError, "{who} has no model {id} at {url}", "check the model's name and base_url"),
    402: _OF_QUOTA,
    408: (ProviderUnavailableError, "{who} gave up waiting for the request", "try again"),
    409: (ProviderUnavailableError, "{who} could not take the request now", "try again"),
    425: (ProviderUnavailableError, "{who} could not take the request yet", "try again"),
    429: (RateLimitError, "{who} received too many requests", "wait {pause} and try again"),
}
_OF_OVERFLOW: _Meaning = (
    ContextOverflowError,
    "The conversation is too long for {model}",
    "shorten it or choose a model with a larger context window",
)
_OF_LOADING: _Meaning = (ModelLoadingError, "{who} is still loading {id}", "try again in {pause}")
_OF_5XX: _Meaning = (ProviderUnavailableError, "{who} failed to answer", "try again {later}")
_OF_4XX: _Meaning = (BadRequestError, "{who} refused the request for {id}", "correct what the message describes")
_OF_OTHERS: _Meaning = (ProviderStatusError, "{url} did not answer the request", "check base_url")


_OF_WORDS: tuple[tuple[frozenset[int], re.Pattern[str], _Meaning], ...] = (
    (frozenset({400, 402, 403, 429}), _QUOTA, _OF_QUOTA),
    (frozenset({400}), _BAD_KEY, _OF_STATUS[401]),
    (frozenset({503}), _LOADING, _OF_LOADING),
    (frozenset({_FAILED}), _TEMPLATE, _OF_4XX),
)
"""Meanings for a status with certain words."""


def _meaning(status: int, words: str) -> _Meaning:
    if _is_overflow(status, words):
        return _OF_OVERFLOW
    for statuses, pattern, meaning in _OF_WORDS:
        if status in statuses and pattern.search(words):
            return meaning
    if _refuses_images(status, words):
        return _of_status(status)[0], "{who} does not accept images for {id}", "leave them out or choose another model"
    if _cannot_read_images(status, words):
        return (
            _of_status(status)[0],
            "{who} could not read an image of the request for {id}",
            "check the file or choose another model",
        )
    if _refuses_documents(status, words):
        return (
            _of_status(status)[0],
            "{who} could not read a document of the request for {id}",
            "check the file, send its text or choose another model",
        )
    return _of_status(status)


def _of_status(status: int) -> _Meaning:
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    return _OF_5XX if status >= 500 else _OF_4XX if status >= 400 else _OF_OTHERS  # noqa: PLR2004


def _refuses_images(status: int, words: str) -> bool:
    return status in _MEDIA_STATUSES and _IMAGES.search(words) is not None


def _refuses_documents(status: int, words: str) -> bool:
    return status in _MEDIA_STATUSES and _DOCUMENTS.search(words) is not None


def _cannot_read_images(status: int, words: str) -> bool:
    if _refuses_images(status, words):
        return False
    return status in _MEDIA_STATUSES and _UNREADABLE_IMAGES.search(words) is not None


def _is_refusal(status: int, words: str) -> bool:
    """Whether the same request would fail again, whatever the status says."""
    if status == _FAILED and _TEMPLATE.search(words) is not None:
        return True
    refuses = (_refuses_images, _cannot_read_images, _refuses_documents)
    return any(refuse(status, words) for refuse in refuses)


def _is_overflow(status: int, words: str) -> bool:
    # Proxies put it in any words, or in none, and a shorter conversation passes in any case.
    if status == _TOO_LARGE:
        return True
    if status in {400, 429} and _TOO_LARGE_FOR_A_MINUTE.search(words):
        return True
    # Inside a stream there is no status, so that 500 stands for any; then the message has to name a size or an excess.
    told = status in _OVERFLOW_STATUSES or (status == _FAILED and _TOLD_IN_STREAM.search(words) is not None)
    if not told or _NOT_OVERFLOW.search(words) is not None:
        return False
    if _OVERFLOW.search(words) is not None:
        return True
    return _MAY_BE_OVERFLOW.search(words) is not None and _OTHER_LENGTH.search(words) is None


def is_about_thinking(error: ProviderError) -> bool:
    """Whether the server refused the earlier thinking that was sent back to it."""
    return isinstance(error, BadRequestError) and _THINKING.search(str(error)) is not None


def is_about_images(error: ProviderError) -> bool:
    """Tell if the server refused images."""
    return isinstance(error, ProviderStatusError) and _refuses_images(error.status, str(error))


def is_about_unreadable_images(error: ProviderError) -> bool:
    """Whether the server could not read an image of the request, though the model accepts images."""
    if not isinstance(error, ProviderStatusError) or isinstance(error, ContextOverflowError):
        return False
    return _cannot_read_images(error.status, str(error))


def is_about_documents(error: ProviderError) -> bool:
    """Whether the server refused a document of the request, which it or the model cannot read."""
    if not isinstance(error, ProviderStatusError) or isinstance(error, ContextOverflowError):
        return False
    return _refuses_documents(error.status, str(error))


def body_error(model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The error for an HTTP answer with a body in any of the shapes that vendors use.

    These are `{"error": {"message", "type", "code"}}`, `{"error": "…"}`, `{"message"}`, `{"detail"}`, text, and the
    HTML of a proxy in between.

    Args:
        model: The model that was asked.
        status: The HTTP status of the answer.
        headers: Its headers, in which a server may say when to ask again.
        body: Its body.

    Returns:
        The error, to be raised.

    Raises:
        ConfigError: The address of the model is not an HTTP URL, or it has none.
    """
    try:
        data = from_json(body)
    except ValueError:
        return status_error(model, status, plain_words(body), headers=headers)
    words, kind = words_and_kind(data)
    return status_error(model, status, words, kind=kind, headers=headers)


def truncated(model: Model) -> StreamTruncated:
    """The error for a stream that ended before its terminal event.

    Args:
        model: The model that was asked.

    Returns:
        The error, to be raised.
    """
    return StreamTruncated(
        f"The answer of {model} ended before it was complete; try again.", provider=model.provider, model=model.id
    )


def cut_off(model: Model, word: str) -> StreamWarning:
    """Warn about a reply with an unknown finish reason.

    Args:
        model: The model that was asked.
        word: The server's own word for the reason.

    Returns:
        The event.
    """
    return StreamWarning(
        f"The reply of {model} was cut off ({quoted(word)}); let it go on, or ask again.", about="cut_off"
    )


def error_in(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Find the error in a document without an answer.

    Args:
        data: A stream's event, or a whole body.

    Returns:
        Input for `words_and_kind`; None without an error.
    """
    if error := data.get("error"):
        return error
    if data.get("choices"):
        return None
    status = data.get("base_resp")  # MiniMax: https://github.com/milind-soni/OpenMausBot/pull/1200
    if isinstance(status, dict) and status.get("status_code"):
        return {"message": status.get("status_msg"), "code": status["status_code"]}
    text = next(
        (data[name] for name in _ERROR_TEXTS if isinstance(data.get(name), (str, list, dict)) and data[name]), None
    )
    return None if text is None or str(text).lower() in _NO_ERRORS else {**data, "message": text}


def reported_error(model: Model, data: Any) -> ProviderError | None:  # noqa: ANN401 - any JSON value
    """Find the error in a body with HTTP status 200.

    Args:
        model: The model that was asked.
        data: The body's JSON value.

    Returns:
        The error, to be raised; None for other bodies. Without its own status it is a refusal.
    """
    if isinstance(data, list) and data:
        data = data[0]
    error = error_in(data) if isinstance(data, dict) else None
    if error is None:
        return None
    words, kind = words_and_kind({"error": error})
    codes = [source.get(name) for source in (error, data) if isinstance(source, dict) for name in _CODES]
    return status_error(model, next(filter(None, map(http_status, codes)), 400), words, kind=kind)


_NO_ERRORS = frozenset({"ok", "success"})
_CODES = ("code", "status", "status_code", "statusCode", "error_code")
_ERROR_TEXTS = ("message", "detail", "errors", "error_message", "error_msg", "errorMessage", "msg")


def words_and_kind(data: Any) -> tuple[str, str]:  # noqa: ANN401 - any JSON value
    """The vendor's message and its name for the error, out of an error object of any known shape."""
    if isinstance(data, list) and data:
        data = data[0]
    inner = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(inner, dict):
        return str(inner), ""
    words = inner.get("message") or inner.get("detail") or inner.get("error") or ""
    kinds = [inner.get("type"), inner.get("code"), inner.get("status")]
    metadata = inner.get("metadata")
    if words == _OF_ANOTHER_SERVER and isinstance(metadata, dict) and (raw := metadata.get("raw")):
        said, kind = words_and_kind(_parsed(raw))
        words = f"{words}: {said}"
        kinds.append(kind)
    return str(words), " ".join(str(kind) for kind in kinds if kind)


def _parsed(raw: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value in a text, or the value itself if it is not the text of one."""
    try:
        return from_json(raw) if isinstance(raw, str) else raw
    except ValueError:
        return raw


def plain_words(body: bytes) -> str:
    """The message in a body that is not JSON: a page's title, or the text itself."""
    text = body[:65536].decode("utf-8", "replace").strip()
    if not text.startswith("<"):
        return text
    title = _TITLE.search(text)
    return f"an HTML page titled {html.unescape(title[1]).strip()!r}" if title else "an HTML page"


def _duration(seconds: float) -> str:
    """A duration in words that people use."""
    exact = f"{seconds:.0f} seconds"
    about = next((f"{seconds / unit:.0f} {name}" for least, unit, name in _UNITS if seconds >= least), "")
    return f"{exact} ({about})" if about else exact


_UNITS = ((172_800, 86400, "days"), (7200, 3600, "hours"), (180, 60, "minutes"))


def quoted(words: str) -> str:
    """A server's words as a part of a sentence: on one line, without control characters, and not too long."""
    words = "".join(each if each.isprintable() else " " for each in words[:_MAX_EXAMINED])
    words = " ".join(words.split()).strip().strip('"').rstrip(".")
    if len(words) <= _MAX_QUOTE_LENGTH:
        return words
    # Whole words only: half of a key would not be recognised and removed.
    return words[: _MAX_QUOTE_LENGTH - 1].rpartition(" ")[0] + "…"
