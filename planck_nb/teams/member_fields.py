"""Reads the fields of a member from data that a person wrote, and collects what is wrong with them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, cast

from planck_nb.agent.identity import Grants, Role
from planck_nb.agent.limits import WHOLE_LIMITS, Limits
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.server_address import server_address
from planck_nb.base.errors import ConfigError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import is_hidden, visible
from planck_nb.teams.member_options import read_options
from planck_nb.teams.problems import TemplateProblem, named
from planck_nb.teams.prompt_files import PromptFiles, is_prompt_file

MEMBER_FIELDS = (
    *("type", "provider", "model_id", "name", "description", "system_prompt", "tools", "skills", "opts"),
    *("base_url", "compactor", "role", "grants", "limits"),
)
"""The fields of a member in a template."""

MAX_NAME = 128
"""Characters that a type or a name may have."""

MAX_MODEL = 256
MAX_DESCRIPTION = 4_096
MAX_NAMES = 1_000
"""Names that a list of tools or skills may have."""

_LIMITS = Limits().as_dict()
_SHOWN = 3


class MemberError(Exception):
    """A member cannot be used; `problem` has the reason."""

    def __init__(self, problem: TemplateProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class MemberReader:
    """Reads one member.

    Args:
        data: The description of the member.
        prompts: Reads the prompts that are in files.
        path: The file with the description, for problems.
        index: The position of the member in its list, None for a single one.
    """

    def __init__(self, data: object, prompts: PromptFiles, path: Path | None = None, index: int | None = None) -> None:
        self._path = path
        self._prompts = prompts
        self.member = "" if index is None else f"member {index + 1:,}"
        self.problems: list[TemplateProblem] = []
        if not isinstance(data, Mapping):
            self.fail("", f"a member must be an object with the fields type, provider and model_id, not {kind(data)}")
        self._data: Mapping[Any, Any] = data
        label = next((text for key in ("name", "type") if isinstance(text := data.get(key), str) and text), "")
        if label:
            self.member = f"{self.member or 'member'} ({named(label)})"

    def note(self, field: str, reason: str) -> None:
        """Remember something that is ignored."""
        self.problems.append(TemplateProblem(self._path, self.member, field, reason))

    def fail(self, field: str, reason: str) -> NoReturn:
        """Raise the error of a member that cannot be used."""
        raise MemberError(TemplateProblem(self._path, self.member, field, reason))

    def read(self) -> dict[str, Any]:
        """Return the arguments of `AgentSpec`. Raises `MemberError`."""
        kind_of_agent = self._required("type", "type")
        provider_name = self._required("provider", "provider or model_id")
        model_id = self._required("model_id", "provider or model_id", MAX_MODEL)
        if REGISTRY.find(provider_name) is None:
            hint = did_you_mean(provider_name, REGISTRY.names())
            self.fail("provider", f"unknown provider {named(provider_name)!r}. {hint}")
        self._note_unknown()
        return {
            "type": kind_of_agent,
            "provider": provider_name,
            "model_id": model_id,
            "name": self._line("name") or kind_of_agent,
            "description": self._description(),
            "system_prompt": self._prompt(),
            "tools": self._names("tools"),
            "skills": self._names("skills"),
            "opts": self._options(),
            "base_url": self._address(),
            "compactor": self._compactor(),
            "role": self._role(),
            "grants": self._grants(),
            "limits": self._limits(),
            "problems": tuple(self.problems),
        }

    def _required(self, field: str, called: str, longest: int = MAX_NAME) -> str:
        value = self._data.get(field)
        if value is None:
            absent = "" if field == called else f" ({field} is not there)"
            hint = " Write provider and model_id instead of model." if absent and "model" in self._data else ""
            self.fail(
                field,
                f"missing required field: {called}{absent}.{hint}"
                if hint
                else f"missing required field: {called}{absent}",
            )
        text = self._line(field, longest)
        if not text:
            empty = "type must not be empty" if field == "type" else f"{called} must not be empty ({field} is)"
            self.fail(field, empty)
        return text

    def _line(self, field: str, longest: int = MAX_NAME) -> str:
        """A text on one line, trimmed; empty if the field is not there."""
        value = self._data.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(field, f"must be a string, not {kind(value)}")
        text = value.strip()
        if len(text) > longest:
            self.fail(field, f"has {len(text):,} characters; at most {longest} are allowed")
        if any(char in "\n\t" or is_hidden(char) for char in text):
            self.fail(field, f"{named(text)!r} has characters that cannot be seen; write it without them")
        plain = unicodedata.normalize("NFKC", text)  # names are compared in this form
        spelling = visible(plain, lookalikes=True)
        if spelling != visible(plain):
            self.fail(field, f"{spelling!r} has letters that look like others; write it in one alphabet")
        return text

    def _description(self) -> str:
        value = self._data.get("description")
        if value is None:
            return ""
        if not isinstance(value, str):
            self.note("description", f"must be a string, not {kind(value)}; it is not used")
            return ""
        if len(value) > MAX_DESCRIPTION or not _is_unicode(value):
            what = (
                "is not valid Unicode"
                if len(value) <= MAX_DESCRIPTION
                else f"has more than {MAX_DESCRIPTION:,} characters"
            )
            self.note("description", f"{what}; it is not used")
            return ""
        return value

    def _prompt(self) -> str:
        value = self._data.get("system_prompt")
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail("system_prompt", f"must be a string or the path of a .md or .txt file, not {kind(value)}")
        if is_prompt_file(value):
            try:
                text = self._prompts.read(value)
            except ValueError as error:
                hint = "; if this is no file but the prompt itself, end it with a line break" if " " in value else ""
                self.fail("system_prompt", f"{error}{hint}")
            if not text:
                self.note("system_prompt", f"the file {named(value)} is empty")
            return text
        if not _is_unicode(value) or "\0" in value:
            self.fail("system_prompt", "is not valid Unicode text")
        return value

    def _names(self, field: str) -> tuple[str, ...]:
        return self._names_in(self._data.get(field), field)

    def _names_in(self, value: object, field: str) -> tuple[str, ...]:
        """The texts in a list, each once; everything else is left out."""
        if value is None:
            return ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.note(field, f'must be a list of names such as ["read", "bash"], not {kind(value)}; it is not used')
            return ()
        names = [name.strip() for name in value if isinstance(name, str) and _is_name(name)]
        if len(names) < len(value):
            wrong = [shown(item) for item in value if not (isinstance(item, str) and _is_name(item))]
            more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
            self.note(field, f"only names are used, not {', '.join(wrong[:_SHOWN])}{more}")
        if len(names) > MAX_NAMES:
            self.note(field, f"has {len(names):,} names; only the first {MAX_NAMES:,} are used")
        return tuple(dict.fromkeys(names[:MAX_NAMES]))

    def _options(self) -> JsonObject:
        value = self._data.get("opts")
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.note("opts", f'must be an object such as {{"temperature": 0.5}}, not {kind(value)}; it is not used')
            return {}
        options, problems = read_options(value)
        for name, reason in problems:
            self.note(f"opts.{name}" if name else "opts", reason)
        return options

    def _address(self) -> str | None:
        value = self._data.get("base_url")
        if value is None:
            return None
        if not isinstance(value, str):
            self.fail("base_url", f"must be a string, not {kind(value)}")
        if not value.strip():
            return None
        try:
            server_address(value)
        except ConfigError as error:
            self.fail("base_url", str(error))
        return value.strip()

    def _compactor(self) -> str | None:
        value = self._data.get("compactor")
        if value is None:
            return None
        if not isinstance(value, str) or (value.strip() and not _is_name(value)):
            self.note("compactor", f"must be the name of a compactor, not {shown(value)}; it is not used")
            return None
        return value.strip() or None

    def _role(self) -> Role:
        value = self._data.get("role")
        if value is None or value == "":
            return ""
        if value not in ("orchestrator", "worker"):
            self.fail("role", f"must be orchestrator or worker, not {shown(value)}")
        return cast("Role", value)

    def _grants(self) -> Grants | None:
        value = self._data.get("grants")
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.fail("grants", f"must be an object with lists of tools, skills and models, not {kind(value)}")
        kinds = [item.name for item in fields(Grants)]
        for key in [str(key) for key in value if key not in kinds][:_SHOWN]:
            self.note(f"grants.{named(key)}", f"is not known and not used. {did_you_mean(key[:MAX_NAME], kinds)}")
        return Grants(**{name: self._names_in(value.get(name), f"grants.{name}") for name in kinds})

    def _limits(self) -> dict[str, float | None]:
        value = self._data.get("limits")
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.fail("limits", f'must be an object such as {{"rounds": 20, "cost": 0.5}}, not {kind(value)}')
        for name, number in value.items():
            if name not in _LIMITS:
                self.fail("limits", f"unknown limit {shown(name)}. {did_you_mean(str(name)[:MAX_NAME], _LIMITS)}")
            if number is not None and not _is_limit(str(name), number):
                what = "a whole number" if name in WHOLE_LIMITS else "a number"
                self.fail(f"limits.{name}", f"must be {what} of 0 or more, or null for no limit, not {shown(number)}")
        try:
            Limits(**cast("dict[str, Any]", dict(value)))
        except ConfigError as error:
            self.fail("limits", str(error))
        return dict(value)

    def _note_unknown(self) -> None:
        unknown = [str(key) for key in self._data if key not in MEMBER_FIELDS]
        for key in unknown[:_SHOWN]:
            hint = did_you_mean(key[:MAX_NAME], MEMBER_FIELDS)
            self.note(named(key), f"unknown field {named(key)!r}, which is not used. {hint}")
        if len(unknown) > _SHOWN:
            self.note("", f"{len(unknown) - _SHOWN:,} more unknown fields, which are not used")


def kind(value: object) -> str:
    """The kind of a JSON value, for messages."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    names = {int: "a number", float: "a number", str: "a text", dict: "an object", list: "a list", tuple: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")


def shown(value: object) -> str:
    """A value as messages show it: a short text or number itself, else what it is."""
    if isinstance(value, str):
        return repr(named(value))
    return str(value)[:40] if isinstance(value, int | float) and not isinstance(value, bool) else kind(value)


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogates, which JSON can escape and nothing can send."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_name(text: str) -> bool:
    trimmed = text.strip()
    return 0 < len(trimmed) <= MAX_MODEL and not any(char in "\n\t" or is_hidden(char) for char in trimmed)


def _is_limit(name: str, number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < float("inf"):
        return False
    return isinstance(number, int) or name not in WHOLE_LIMITS
