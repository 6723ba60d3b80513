"""The schema of one entry in a user's models file. Imported when there is such a file, because it loads pydantic."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from planck_nb.ai.numbers import MAX_TOKENS

MAX_DOLLARS_PER_MILLION = 1_000_000.0
"""A higher price than a dollar for a token is a mistake."""

Text = Annotated[str, Field(pattern=r"\S")]
Tokens = Annotated[int, Field(gt=0, le=MAX_TOKENS)]
Dollars = Annotated[float, Field(ge=0, le=MAX_DOLLARS_PER_MILLION, allow_inf_nan=False)]


class _Table(BaseModel):
    # Unknown keys are kept, so that they can be named in a warning.
    model_config = ConfigDict(strict=True, extra="allow")

    @property
    def unknown(self) -> list[str]:
        """The unknown keys."""
        return sorted(self.model_extra or {})


class Rates(_Table):
    """US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None

    @property
    def rates(self) -> tuple[float, float, float | None, float | None]:
        """The rates in the order of `Pricing` and `PriceStep`."""
        return self.input, self.output, self.cache_read, self.cache_write


class Step(Rates):
    """The rates of requests with more than `above` input tokens."""

    above: Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class Price(Rates):
    """The rates, and those of longer prompts."""

    steps: list[Step] = []


class DefaultOptions(_Table):
    """The options that may have a default."""

    max_tokens: Tokens | None = None
    temperature: Annotated[float, Field(allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(allow_inf_nan=False)] | None = None
    stop: list[str] = []
    thinking: Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    extra: dict[str, Any] = {}


class UserModelEntry(_Table):
    """One model."""

    id: Text
    provider: Text
    model: Text | None = None
    name: Text | None = None
    base_url: Text | None = None
    identifier: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")] | None = None
    has_api_key: bool | None = None
    api: Text | None = None
    context_window: Tokens | None = None
    max_output: Tokens | None = Field(None, validation_alias=AliasChoices("max_output", "max_tokens"))
    thinking: bool | None = Field(None, validation_alias=AliasChoices("thinking", "supports_thinking"))
    modalities: list[str] | None = Field(None, validation_alias=AliasChoices("modalities", "input_types"))
    price: Price | None = Field(None, validation_alias=AliasChoices("price", "cost"))
    options: DefaultOptions = Field(
        DefaultOptions(), validation_alias=AliasChoices("options", "params", "default_opts")
    )


def reason(error: ValidationError) -> str:
    """What is wrong with an entry, as the end of a sentence that names its key."""
    first = error.errors(include_url=False, include_input=False)[0]
    *parents, key = [str(step) for step in first["loc"]] or ["it"]
    match first["type"]:
        case "missing":
            return f"{'.'.join(parents) or 'it'} has no {key}"
        case "model_type":
            return f"{'.'.join([*parents, key])} must be a table"
        case "string_pattern_mismatch" if key == "identifier":
            return "identifier must be letters, digits and underscores, because it begins the name of a variable"
        case "string_pattern_mismatch":
            return f"{key} must not be empty"
        case _:
            said = first["msg"].removeprefix("Input should ").removeprefix("String should ")
            return f"{'.'.join([*parents, key])} must {said}"
