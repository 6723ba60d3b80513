"""An error of any verb is one sentence, and with `--debug` a traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.kernel import Kernel, running_kernel

from planck_nb.jupyter.verbs import VERBS

FAILING = {
    "agents": "--nosuch",
    "use": "plank",
    "answer": "99",
    "serve": "statsu",
    "model": "nobody:x1",
    "models": "googel",
    "engine": "--nosuch",
    "map": "nothing --column q",
    "tools": "plank",
    "skills": "--nosuch",
    "request": "plank",
    "fix": "--cell 999",
    "explain": "--cell 999",
    "improve": "--cell 999",
    "test": "--cell 999",
    "remove": "plank",
    "team": "check nothing",
    "sidecar": "start nothing",
    "steer": "faster",
    "stop": "plank",
    "continue": "plank",
    "approve": "planck",
    "deny": "planck",
    "compact": "plank",
    "sql": "SELEC 1 FROM x",
    "search": "x --session nothing",
    "cost": "calm-fox",
    "timeline": "calm-fox",
    "scores": "--nosuch",
    "changes": "--nosuch",
    "undo": "--nosuch",
    "rewind": "99",
    "fork": "???",
    "resume": "calm-fox",
    "sessions": "compakt",
    "export": "calm-fox x.md",
    "import": "nothing.jsonl",
    "delete": "calm-fox",
    "history": "--days none",
    "config": "rounds=-1",
    "permissions": "forget nothing",
    "cassette": "auto",
    "help": "nothing",
    "queue": "plank",
    "trust": "nothing.json",
    "doctor": "--nosuch",
    "version": "--nosuch",
}
"""What makes each verb fail."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb\n%xmode Plain\n%planck --quiet hello")  # short tracebacks
        yield kernel


def test_every_verb_is_here() -> None:
    assert set(FAILING) == set(VERBS)


@pytest.mark.parametrize("verb", FAILING)
def test_debug_shows_the_traceback_of_a_verb(kernel: Kernel, verb: str) -> None:
    without = kernel.run(f"%planck {verb} {FAILING[verb]}")
    assert without.status == "error"
    assert "\n" not in without.error
    sentence = without.error.partition("Error: ")[2].partition(" To send it as a prompt")[0]
    assert sentence
    cell = kernel.run(f"shown = %planck {verb} --debug {FAILING[verb]}")
    assert "Traceback" in cell.error
    assert sentence in cell.error, "the error is the same"
