"""The verbs that draw, in a real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernel import Kernel, running_kernel
from support.stored import converse

from planck_nb.jupyter.charts import scores, timeline, usage
from planck_nb.sessions import Session, list_sessions


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored session `ada` with one turn of an agent Ada."""
    folder = tmp_path_factory.mktemp("store")

    async def fill() -> None:
        with Session.create(folder, name="ada") as session:
            await converse(session)

    asyncio.run(fill())
    return folder


@pytest.fixture(scope="module")
def kernel(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    settings = {"PLANCK_NB_DEMO_PACE": "0", "PLANCK_NB_MODEL": "demo", "PLANCK_NB_SESSIONS_DIR": str(store)}
    with running_kernel(tmp_path_factory.mktemp("notebook"), **settings) as kernel:
        kernel.run("%load_ext planck_nb")
        yield kernel


def test_looking_makes_no_session_and_says_that_there_is_nothing(kernel: Kernel, store: Path) -> None:
    before = len(list_sessions(store))
    assert kernel.run("%planck cost").plain == usage.NOTHING
    assert kernel.run("%planck timeline").plain == timeline.NOTHING
    assert kernel.run("%planck cost --table").plain == usage.NOTHING
    assert len(list_sessions(store)) == before


def test_another_session_by_name(kernel: Kernel) -> None:
    shown = kernel.run("%planck cost ada").outputs[-1]["data"]
    assert shown["text/plain"].startswith("Usage: 1 agent, 25 tokens, $0.750\n")
    assert "<table>" in shown["text/html"]
    drawn = kernel.run("%planck timeline ada").outputs[-1]["data"]
    assert drawn["image/svg+xml"].startswith("<svg")
    assert 'src="data:image/svg+xml;base64,' in drawn["text/html"]
    assert kernel.run("%planck timeline ada --agent Ada").plain == "Timeline: 1 agent, 1 turn"
    table = kernel.run(
        "x = %planck cost ada --table\nprint(list(x.columns), x.input_tokens.tolist(), x.cost_usd.tolist())"
    )
    assert table.text.strip() == (
        "['agent', 'model', 'purpose', 'replies', 'input_tokens', 'output_tokens', 'cache_read_tokens', "
        "'cache_write_tokens', 'thinking_tokens', 'cost_usd'] [17] [0.75]"
    )


def test_the_notebooks_own_session_and_the_frame_behind_the_tables(kernel: Kernel) -> None:
    kernel.run("%%planck -q\nhello")
    assert kernel.run("%planck timeline").plain == "Timeline: 1 agent, 1 turn"
    cell = kernel.run("shown = %planck cost\nprint(shown.frame.agent[0], shown.frame.turn[0])")
    assert cell.text.strip() == "planck 0"
    assert kernel.run("shown").plain.startswith("Usage: 1 agent, ")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("usage adda", "Did you mean ada"),
        ("timeline ada --agent Bob", "has no agent Bob. Known are: Ada."),
        ("timeline --table", "has no option --table"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_sentence(kernel: Kernel, typed: str, said: str) -> None:
    assert said in str(kernel.run(f"%planck {typed}").error)


_EVALUATION = """
from planck_nb import get_workspace
from planck_nb.testing import contains, scripted_model
run = await get_workspace().evaluate(
    None, [{"input": "6 times 7?", "expected": "42"}], [contains], models=scripted_model(["42."]), name="sums"
)
"""


def test_scores_are_a_picture_or_a_table(kernel: Kernel) -> None:
    assert kernel.run("%planck scores").plain == scores.NOTHING
    assert kernel.run("%planck scores --table").plain == scores.NOTHING
    kernel.run(_EVALUATION)
    cell = kernel.run("%planck scores --cases").outputs[-1]["data"]
    assert cell["image/svg+xml"].startswith("<svg")
    assert cell["text/plain"].splitlines()[0] == "Scores: sums, 1 evaluation, 1 model"
    assert kernel.run("x = %planck scores --name sums --table\nprint(x['mean'].tolist())").text.strip() == "[1.0, 1.0]"
    assert "There is no evaluation sum. Did you mean sums?" in kernel.run("%planck scores --name sum").error
