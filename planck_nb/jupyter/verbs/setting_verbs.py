"""Verbs that show and change settings."""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from IPython.display import display

import planck_nb
from planck_nb.agent.approval import ACTIONS, KINDS, Action, Rule
from planck_nb.agent.limits import Limits
from planck_nb.ai import Cassette
from planck_nb.ai.cassettes import Mode
from planck_nb.base.errors import TrustError, UsageError, did_you_mean
from planck_nb.base.text import counted
from planck_nb.base.threads import run_in_thread
from planck_nb.config import SETTINGS, Config, Scope, read_limits, write_setting
from planck_nb.jupyter.display.trust_listing import TrustListing
from planck_nb.jupyter.file_names import looks_like_file
from planck_nb.jupyter.kernel_tools.kernel_tool_names import RUN_PYTHON
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import is_tool
from planck_nb.jupyter.parsing.options import rules
from planck_nb.jupyter.parsing.parameters import Extent, Kind, Option, Parameter, choice
from planck_nb.jupyter.similar_words import nearest
from planck_nb.jupyter.verbs.declaration import Text, table, verb
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import named_agents
from planck_nb.workspace.folder_files import TrustedFile
from planck_nb.workspace.installation_findings import Finding

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "Settings"

_COLUMNS = ["setting", "value", "source", "variable"]
_PAIR = 2
_AMOUNT = re.compile(r"\$?\d[\d.,_]*\$?|none")


_GIVEN = {
    "sidecar_sampling": "asks models",
    "sidecar_observers": "sees all events",
    "sidecar_roots": "is told this folder",
}
"""What a setting gives to the sidecars in it."""


def _suggested_trust(notebook: Notebook) -> dict[str, str]:
    return {file.item.name: file.status for file in notebook.workspace.trust_items() if file.item.name}


_TRUST_NAMES = Kind(
    "NAME",
    extent=Extent.WORDS,
    suggest=_suggested_trust,
    fits=lambda notebook, text: bool(nearest(text, _suggested_trust(notebook))) or looks_like_file(text),
)


def _settings(_notebook: Notebook) -> dict[str, str]:
    return {setting.field: setting.help for setting in SETTINGS}


def _may_be_setting(_notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise a setting or a limit, perhaps with a word as value."""
    name, sign, _ = words[0].partition("=")
    limits, fields = Limits().as_dict(), {setting.field for setting in SETTINGS}
    if sign or words[1:2] == ["="]:
        return name.isidentifier()
    if name in limits:
        return len(words) == 1 or (len(words) == _PAIR and _AMOUNT.fullmatch(words[1]) is not None)
    is_known = bool(nearest(name, [*fields, "limits"])) or any(name in field.split("_") for field in fields)
    return is_known and (len(words) <= _PAIR or words[1].endswith(","))


@verb(
    "config",
    SUBJECT,
    "show the settings and where they come from, write one to a file, or change limits",
    Parameter(
        "words",
        Kind("NAME VALUE", extent=Extent.WORDS, suggest=_settings),
        "a setting to show or to write (`none` removes it), or a limit: NAME=NUMBER",
        optional=True,
    ),
    Option("user", None, None, "write to ~/.planck/config.toml, which applies to all projects"),
    example="config default_model anthropic:claude-sonnet-4-6 --user",
    synonyms=("settings", "setting", "set"),
    shortcuts={"budget": "cost", "limit": "cost", "limits": "limits"},
    shows=True,
    fits=_may_be_setting,
)
async def config(notebook: Notebook, words: tuple[str, ...], user: bool) -> pd.DataFrame | Text:
    """Return a table of the settings, or write one."""
    workspace = notebook.workspace
    words = _with_equals_sign(words)
    _refuse_equals_sign(words)
    if len(words) == 1 and "=" not in words[0] and not user:
        return table(_rows_of(workspace, words[0]), _COLUMNS)
    if words and "=" not in words[0]:
        scope: Scope = "user" if user else "project"
        value = " ".join(words[1:]).strip()
        require_models(workspace, words[0], value)
        return Text(await run_in_thread(partial(_write, workspace.config, scope, words[0], value)))
    if user:
        raise UsageError("`%planck config --user` needs NAME VALUE: the setting to write.")
    if words:
        written = " ".join(words)
        try:
            workspace.set_limits(read_limits(written, workspace.limits))
        except ValueError as error:
            raise UsageError(f"`%planck config {written}`: it {error}.") from None
        await workspace.save_session_settings()
        changed = {word.partition("=")[0] for word in written.replace(",", " ").split()}
        return Text(_limits_sentence(workspace.limits, changed))
    return table(_rows(workspace), _COLUMNS)


def _limits_sentence(limits: Limits, names: Collection[str]) -> str:
    """Say what these limits are now."""
    parts = [f"{name} {_limit(number)}" for name, number in limits.as_dict().items() if name in names]
    return f"Limits for this session: {', '.join(parts)}."


def _limit(number: float | None) -> str:
    return "none" if number is None else f"{number:,}".removesuffix(".0")


def _with_equals_sign(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return `cost=2` for `cost 2` and `cost $2`."""
    if len(words) == _PAIR and words[0] in Limits().as_dict() and _AMOUNT.fullmatch(words[1]):
        return (f"{words[0]}={words[1].strip('$')}",)
    return words


def _refuse_equals_sign(words: Sequence[str]) -> None:
    """Raise `UsageError` for `NAME=VALUE` of a setting, or `NAME = VALUE`, in which the sign would be written, too."""
    name, sign, value = " ".join(words).partition("=")
    name, value = name.strip(), value.strip()
    if not sign or " " in name:
        return
    if name in {setting.field for setting in SETTINGS}:
        raise UsageError(f"Write `%planck config {name} {value or 'VALUE'}`, without the sign =.")
    if name in Limits().as_dict() and "=" not in words[0]:
        raise UsageError(f"Write `%planck config {name}={value or 'NUMBER'}`, without blanks.")


def require_models(workspace: Workspace, name: str, value: str) -> None:
    """Check the models in a setting's value.

    Args:
        workspace: The notebook's workspace.
        name: The setting.
        value: Its text.

    Raises:
        ModelError: A model is missing.
    """
    if name not in {"default_model", "fallbacks"} or value == "none":
        return
    with suppress(TrustError):  # then it is not known which models the folder describes
        for reference in filter(None, map(str.strip, value.split(","))):
            workspace.model(reference)


def _write(config: Config, scope: Scope, name: str, value: str) -> str:
    """Write a setting to a file, and describe what was done."""
    where = " --user" if scope == "user" else ""
    if name in Limits().as_dict():
        limit = f"{name}={value or 'NUMBER'}"
        raise UsageError(
            f"{name} is a limit: write `%planck config {limit}` for this session, or `%planck config limits {limit}` "
            "for the settings file."
        )
    if not value:
        raise UsageError(f"`%planck config {name}{where}` needs VALUE; write `%planck config {name} VALUE{where}`.")
    path = write_setting(scope, name, None if value == "none" else value, directory=config.root)
    source = config.sources.get(name, "")
    if source.startswith("environment"):
        return f"{name} was written to {path}, but the {source} takes precedence."
    return f"{name} was written to {path}; new kernels use it."


def _rows_of(workspace: Workspace, name: str) -> list[dict[str, object]]:
    """The row of one setting or limit; all limits for `limits`."""
    names = [*Limits().as_dict()] if name == "limits" else [name]
    rows = _rows(workspace)
    if found := [row for row in rows if row["setting"] in names]:
        return found
    known = ["limits", *(str(row["setting"]) for row in rows)]
    raise UsageError(f"There is no setting {name}. {did_you_mean(name, known)}")


def _rows(workspace: Workspace) -> list[dict[str, object]]:
    """Each setting with its value, its source and its variable."""
    now, before = workspace.approvals.policy.rules, workspace.policy().rules
    rows: list[dict[str, object]] = []
    for setting, configured, source in workspace.config.settings():
        value, unchanged = configured, True
        if setting.field == "limits":
            value = workspace.limits
            unchanged = value == configured
        elif setting.field in ACTIONS:
            value = [rule for rule in now if rule.action == setting.field]
            unchanged = value == [rule for rule in before if rule.action == setting.field]
        origin = {"source": source if unchanged else "this session", "variable": setting.variable}
        if isinstance(value, Limits):
            rows += [{"setting": name, "value": _limit(number), **origin} for name, number in value.as_dict().items()]
        else:
            rows.append({"setting": setting.field, "value": _written(value), **origin})
    return rows


def _written(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _may_be_rules(notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise an action with patterns or known tools."""
    action, *texts = words
    if not texts or action not in {*ACTIONS, "forget"}:
        return bool(nearest(action, [*ACTIONS, "forget"])) and not texts
    if action == "forget":
        return True
    parts = [part for part in texts[0].split(",") if part.strip()]
    return not parts or any(_may_be_rule(notebook, cast("Action", action), part) for part in parts)


def _may_be_rule(notebook: Notebook, action: Action, text: str) -> bool:
    try:
        (rule,) = rules(action)(text)
    except UsageError:
        return False
    return bool(rule.pattern or set(rule.tool) & set("*?[")) or is_tool(notebook, rule.kind or rule.tool)


@verb(
    "permissions",
    SUBJECT,
    "show which tool calls are allowed, or allow, ask about or deny some, or forget a rule",
    Parameter("action", choice(*ACTIONS, "forget"), "what happens to such calls in this session", optional=True),
    Parameter("written", Kind("RULES", extent=Extent.TEXT), "the rules, separated by commas", optional=True),
    example="permissions allow bash:git *, write:src/**",
    synonyms=("policy", "permission", "rules"),
    shortcuts={"allow": "allow"},
    shows=True,
    fits=_may_be_rules,
)
async def permissions(
    notebook: Notebook, action: Action | Literal["forget"] | None, written: str | None
) -> pd.DataFrame:
    """Return a table of the approval rules, with those that were written."""
    workspace = notebook.workspace
    approvals = workspace.approvals
    names = {agent.id: name for name, agent in named_agents(workspace).items()}
    if action == "forget":
        for rule in _remembered(workspace, names, written or ""):
            approvals.forget(rule)
    elif action:
        try:
            chosen = rules(action)(written or "")
        except ValueError:
            raise UsageError(
                f"`%planck permissions {action}` needs RULES, such as `%planck permissions {action} bash:git *`."
            ) from None
        if any(rule.action == "allow" and rule.tool == RUN_PYTHON for rule in chosen):
            raise UsageError(
                f"{RUN_PYTHON} runs any code with your rights, so no rule can allow it; write `--allow {RUN_PYTHON}` "
                "in the cell of a prompt, for this prompt only."
            )
        for rule in chosen:
            approvals.remember(rule)
    if action:
        await workspace.save_session_settings()
    configured = set(workspace.policy().rules)
    sources = {setting.field: source for setting, _, source in workspace.config.settings() if source != "default"}
    rows = [
        {
            "what": _shown(rule, names),
            "action": rule.action,
            "from": sources.get(rule.action, "settings") if rule in configured else "session",
        }
        for rule in approvals.policy.rules
    ]
    for kind in KINDS:
        where = " (below the working directory)" if kind == "read" else ""
        rows.append({"what": f"{kind}{where}", "action": approvals.policy.default.get(kind, "ask"), "from": "default"})
    return table([*rows, *_given(workspace)], ["what", "action", "from"], whole=True)


def _given(workspace: Workspace) -> Iterator[dict[str, str]]:
    """List trusted files, and what settings give to sidecars."""
    for file in workspace.trust_items():
        if not file.is_waiting:
            what = f"{file.item.kind} {file.item.name or file.item.path.name}"
            yield {"what": what, "action": "trusted", "from": "`%planck trust`"}
    for setting, value, source in workspace.config.settings():
        if setting.field in _GIVEN and isinstance(value, tuple):
            for name in value:
                yield {"what": f"sidecar {name}", "action": _GIVEN[setting.field], "from": source}


def _remembered(workspace: Workspace, names: Mapping[str, str], written: str) -> Sequence[Rule]:
    """Return the session's rules with this text, or raise `UsageError`."""
    text = written.strip()
    if not text:
        raise UsageError("`%planck permissions forget` needs RULE, as `%planck permissions` shows it.")
    rules_now = workspace.approvals.policy.rules
    matches = [rule for rule in rules_now if text in (_shown(rule, names), str(rule))]
    if not matches:
        hint = did_you_mean(text, [_shown(rule, names) for rule in rules_now])
        raise UsageError(f"There is no rule {text}. {hint}".rstrip())
    if set(matches) <= set(workspace.policy().rules):
        raise UsageError(f"The rule {text} comes from the settings; `%planck config {matches[0].action}` shows where.")
    return matches


def _may_be_recording(_notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise a mode, perhaps with a file."""
    mode, *file = words
    if mode not in {"record", "replay", "auto", "off"}:
        return not file and bool(nearest(mode, ["record", "replay"]))
    return not file or looks_like_file(file[0]) or Path(" ".join(file)).exists()


@verb(
    "cassette",
    SUBJECT,
    "record what models answer to a file, and replay it",
    Parameter(
        "mode",
        choice(
            record="ask models and record their answers",
            replay="answer from the file only",
            auto="replay what the file has and record the rest",
            off="ask models and record nothing",
        ),
        "where answers come from; by default, show the current mode",
        optional=True,
    ),
    Parameter("file", Kind("FILE", extent=Extent.NAME), "the file of the recording", optional=True),
    example="cassette auto orders.jsonl",
    shortcuts={"record": "record", "replay": "replay"},
    shows=True,
    fits=_may_be_recording,
)
async def cassette(notebook: Notebook, mode: str | None, file: str | None) -> Text:
    """Use a cassette, or say which one is used."""
    workspace = notebook.workspace
    if mode == "off":
        if file:
            raise UsageError("`%planck cassette off` needs no file.")
        workspace.cassette = None
    elif mode:
        if not file:
            raise UsageError(f"`%planck cassette {mode}` needs FILE, such as `%planck cassette {mode} orders.jsonl`.")
        chosen = Cassette(file, cast("Mode", mode))
        described = _describe(chosen)  # reads the file, so that one that cannot be used changes nothing
        workspace.cassette = chosen
        return described
    return _describe(workspace.cassette)


def _describe(used: Cassette | None) -> Text:
    if used is None or used.mode == "off":
        return Text("No cassette: models are asked and nothing is recorded.")
    held = counted(used.answers, "answer")
    described = {
        "record": f"Models are asked, and their answers are recorded in {used.path}.",
        "replay": f"Answers come from {used.path} ({held}); no model is asked.",
        "auto": f"Answers come from {used.path} if it has them; models are asked for the others, which are recorded.",
    }[used.mode]
    return Text(f"{described}\n{used.problem or ''}".rstrip())


def _shown(rule: Rule, names: Mapping[str, str]) -> str:
    """The text of a rule, with the names of agents instead of their ids."""
    if not rule.agent_ids:
        return str(rule)
    return str(
        replace(rule, agent=", ".join(names.get(agent_id, agent_id) for agent_id in rule.agent_ids), agent_ids=())
    )


@verb(
    "trust",
    SUBJECT,
    "trust this folder's tools, models and settings that can run code or redirect requests",
    Parameter("names", _TRUST_NAMES, "what to trust, by name or file; by default everything", optional=True),
    Option("list", None, None, "show all that these files would do, and whether they are trusted"),
    Option("remove", None, None, "stop trusting this folder, or what is named"),
    example="trust --list",
)
async def trust(
    notebook: Notebook,
    names: tuple[str, ...] | None,
    list: bool,  # noqa: A002 - the option
    remove: bool,
) -> TrustListing | Text:
    """Trust complete listings, or show them.

    The text is always the same, so that a notebook that is executed again has the same output.
    """
    workspace, listed_before = notebook.workspace, notebook.controller.shown_trust
    if list and remove:
        raise UsageError("`%planck trust` needs either --list or --remove.")
    files = _chosen_files(workspace, names or ())
    if remove:
        workspace.distrust([file.item for file in files] if names else None)
        return Text(f"Not trusted any more: {', '.join(names)}." if names else "This folder is no longer trusted.")
    if list:
        listed_before.update(map(_seen, files))
        return TrustListing(files, workspace.config.root, empty="Nothing in this folder needs trust.")
    waiting = [file for file in files if file.is_waiting]
    if not listed_before.issuperset(map(_seen, waiting)):
        display(TrustListing(waiting, workspace.config.root))
        count = counted(len(waiting), "thing")
        seconds = workspace.approvals.deadline
        decision = await notebook.confirm(
            f"Trust {count} as shown?", accept=f"Trust {count}", decline="Not now", seconds=seconds
        )
        if decision is None:
            listed_before.update(map(_seen, waiting))
            raise TrustError(
                "Nothing was trusted, because there is nobody to ask: read what is shown above, then run "
                "`%planck trust` again; in a notebook that runs by itself, put `%planck trust --list` before it."
            )
        if not decision:
            return Text("Nothing was trusted. Prompts go on without it.")
    workspace.trust([file.item for file in waiting])
    if names:
        return Text(f"Trusted: {', '.join(names)}.")
    return Text("This folder is trusted: its tools, models and settings are used. `%planck trust --list` lists them.")


def _seen(file: TrustedFile) -> tuple[Path, str, str]:
    return file.item.path, file.item.digest, file.item.text


def _chosen_files(workspace: Workspace, names: Sequence[str]) -> Sequence[TrustedFile]:
    """Return the files with these names or paths, or raise `UsageError`."""
    files = workspace.trust_items()
    if not names:
        return files
    names_of_files = [_trust_names(workspace, file) for file in files]
    all_names = set().union(*names_of_files)
    for name in names:
        if name not in all_names:
            hint = did_you_mean(name, sorted(all_names))
            raise UsageError(f"Nothing here that needs trust is named {name}. {hint}".rstrip())
    return [file for file, its in zip(files, names_of_files, strict=True) if not its.isdisjoint(names)]


def _trust_names(workspace: Workspace, file: TrustedFile) -> set[str]:
    path, root = file.item.path, workspace.config.root
    relative = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    return {name for name in (file.item.name, str(path), relative) if name}


@dataclass(frozen=True, slots=True, repr=False)
class Examination:
    """Findings, as a table in a notebook or as lines.

    Args:
        findings: The findings, problems first.
    """

    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        return for_terminal("\n".join(map(str, self.findings)))

    def _repr_html_(self) -> str:
        rows = [
            {"state": finding.state, "topic": finding.topic, "finding": finding.text, "fix": finding.fix}
            for finding in self.findings
        ]
        frame: Any = table(rows, ["state", "topic", "finding", "fix"], whole=True)
        return str(frame._repr_html_())


@verb("doctor", SUBJECT, "examine what is installed, found, trusted and stored; each problem has its fix", shows=True)
async def doctor(notebook: Notebook) -> Examination:
    """Examine the notebook's installation and folder."""
    from planck_nb.workspace.doctor import examine  # noqa: PLC0415 - only this verb needs it

    order = ("problem", "note", "ok")
    findings = [*await examine(notebook.workspace), *notebook.controller.examine_pages()]
    return Examination(tuple(sorted(findings, key=lambda finding: order.index(finding.state))))


@verb("version", SUBJECT, "show the versions of planck_nb, Python and Jupyter", shows=True)
async def version(_notebook: Notebook) -> Text:
    """Return the versions."""
    shown = [f"planck_nb {planck_nb.__version__}", f"Python {platform.python_version()}"]
    for package in ("IPython", "ipykernel", "jupyterlab", "mcp"):
        with suppress(PackageNotFoundError):
            shown.append(f"{package} {package_version(package)}")
    return Text(", ".join(shown))
