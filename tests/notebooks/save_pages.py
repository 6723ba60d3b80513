"""Writes the pages `notebooks/verbs.md` and `notebooks/options.md` from the declarations.

python tests/notebooks/save_pages.py
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from planck_nb.jupyter.parsing.options import OPTIONS
from planck_nb.jupyter.parsing.parameters import OF_EVERY_VERB
from planck_nb.jupyter.verbs import VERBS
from planck_nb.jupyter.verbs.verb_registry import prompts

FOLDER = Path(__file__).parents[2] / "notebooks"


def verbs_page() -> str:
    """All verbs by subject, with their help."""
    subjects = list(dict.fromkeys(verb.subject for verb in VERBS.values()))
    verbs = sorted(VERBS.values(), key=lambda verb: subjects.index(verb.subject))
    general = " and ".join(f"`--{option.name}`" for option in OF_EVERY_VERB)
    lines = [
        "# Verbs",
        "",
        "`%planck VERB …` does one of the things below; any other line is a prompt, and `%planck -- …` always is one.",
        f"`%planck help` and `%planck help VERB` say the same in a notebook. Each verb has the options {general}.",
    ]
    for subject, group in groupby(verbs, key=attrgetter("subject")):
        members = list(group)
        rows = [(f"`{verb.declared.usage}`", verb.summary) for verb in members]
        lines += ["", f"## {subject}", "", *table("write", "to", rows)]
        for verb in members:
            lines += ["", f"<details><summary>{verb.name}</summary>", "", "```text", verb.help, "```", "", "</details>"]
    return "\n".join([*lines, ""])


def options_page() -> str:
    """The options of a prompt, and the page of help about prompts."""
    rows = [(f"`{option.usage}`", option.help) for option in OPTIONS]
    return "\n".join(
        [
            "# Options of a prompt",
            "",
            "Options come before the prompt: `%%planck [AGENT] [OPTIONS]` above the lines of a cell, or",
            "`%planck AGENT --option … PROMPT` on one line.",
            "",
            *table("option", "does", rows),
            "",
            "`%planck help prompt` shows the same:",
            "",
            "```text",
            prompts(),
            "```",
            "",
        ]
    )


def table(left: str, right: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """A table of two columns."""
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {left} | {right} |", "|---|---|", *(f"| {first} | {second} |" for first, second in cells)]


PAGES = {"verbs.md": verbs_page, "options.md": options_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(FOLDER / name)
