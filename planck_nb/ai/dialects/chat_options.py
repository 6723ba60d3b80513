"""Options in a Chat Completions request, by its server's rules."""

from __future__ import annotations

from dataclasses import replace

from planck_nb.ai.dialects.openai_common import add_sampling, add_template_switch, effort, output_format, reasons
from planck_nb.ai.dialects.tool_fields import add_extra
from planck_nb.ai.models import Model
from planck_nb.ai.providers import rules_of
from planck_nb.ai.request import Options
from planck_nb.ai.schemas.fitted_output import fit_output
from planck_nb.ai.schemas.schema_rules import OF_GRAMMARS
from planck_nb.ai.server_rules import ServerRules
from planck_nb.base.json_types import JsonObject


def add_options(body: JsonObject, model: Model, options: Options, warnings: list[str]) -> JsonObject:
    """Add the options to a body with messages and tools.

    Args:
        body: The body, which is changed.
        model: The model to ask.
        options: How it should answer.
        warnings: Gets a sentence about each option which the server refuses.

    Returns:
        The body to send.
    """
    rules = rules_of(model)
    if options.max_tokens is not None:
        body[rules.limit_field] = options.max_tokens
    if options.stop and reasons(model):
        warnings.append(f"{model} does not accept stop sequences, so they were not sent.")
    elif options.stop:
        body["stop"] = list(options.stop)
    word = effort(model, options, warnings)
    _add_thinking(body, model, rules, word, warnings)
    add_template_switch(body, model, options)
    add_sampling(body, model, options, word, warnings)
    if options.output is not None:
        _add_output(body, rules, options.output)
    for name in rules.refused_fields & body.keys():
        del body[name]
        if name != "stream_options":  # which nobody has asked for
            warnings.append(f"{model.provider} does not accept {name}, so it was not sent.")
    add_extra(body, options.extra)
    return body if rules.change is None else rules.change(body)


def _add_thinking(body: JsonObject, model: Model, rules: ServerRules, word: str | None, warnings: list[str]) -> None:
    """Set the thinking level, or turn it off for a demanded call."""
    match rules.thinking_control:
        case "reasoning_effort" if word is not None:
            body["reasoning_effort"] = word
        case "reasoning" if word is not None:
            body["reasoning"] = {"enabled": False} if word == "none" else {"effort": word}
        case "thinking":
            prevents_call = not rules.demands_while_thinking and _demands_call(body)
            if prevents_call and word not in (None, "none"):
                warnings.append(f"{model} cannot think where a call is demanded, so thinking was turned off.")
            if prevents_call or word is not None:
                body["thinking"] = {"type": "disabled" if prevents_call or word == "none" else "enabled"}
        case "none" if word is not None:
            warnings.append(f"{model.provider} has no levels of thinking, so none was sent.")
        case _:
            pass


def _demands_call(body: JsonObject) -> bool:
    choice = body.get("tool_choice")
    return isinstance(choice, dict) or choice == "required"


def _add_output(body: JsonObject, rules: ServerRules, schema: JsonObject) -> None:
    if rules.output_control != "json_schema":
        body["response_format"] = {"type": "json_object"}
        return
    if rules.refused_keywords:
        schema = fit_output(schema, replace(OF_GRAMMARS, refused=rules.refused_keywords)).schema
    form = output_format(schema)
    body["response_format"] = {
        "type": "json_schema",
        "json_schema": form if rules.strict else {**form, "strict": False},
    }
