"""The picture of scores, which equal scores draw equally."""

from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.charts import Chart, scores_chart
from planck_nb.jupyter.charts.scores import NOTHING
from planck_nb.testing import Case, CaseAnswer, scripted_model

CASES = [Case(f"Prompt {number}", name=name) for number, name in enumerate(["dates", "joins", "<plots>"])]
MODEL = scripted_model(["Yes."])


def passes(answer: CaseAnswer) -> bool:
    if answer.case.name == "joins" and answer.repetition == 1:
        raise ValueError("unknown")
    return answer.case.name == "dates"


def points(answer: CaseAnswer) -> float:
    return 10.0 * answer.repetition


async def evaluated(folder: Path, *names: str) -> tuple[Chart, Chart]:
    async with Workspace(Config.load(environment={}, directory=folder, home=folder)) as workspace:
        for number, name in enumerate(names):
            workspace.add_agent(f"agent {number}", model=MODEL, system_prompt=f"Version {number}.")
            await workspace.evaluate(f"agent {number}", CASES, [passes, points], repeat=2, name=name)
        return await scores_chart(workspace), await scores_chart(workspace, cases=True)


async def test_equal_scores_give_equal_bytes(tmp_path_factory: pytest.TempPathFactory) -> None:
    first, second = [await evaluated(tmp_path_factory.mktemp(str(number)), "suite", "suite") for number in range(2)]
    assert [chart.svg for chart in first] == [chart.svg for chart in second]


async def test_it_shows_models_cases_errors_and_earlier_evaluations(tmp_path: Path) -> None:
    plain, by_case = await evaluated(tmp_path, "suite", "suite")
    assert repr(plain).splitlines() == [
        "Scores: suite, 2 evaluations, 1 model",
        "passes, all cases, demo:script: 2 of 5, 1 error and interval 6 to 79 %.",
        "passes, all cases, 1 earlier, demo:script: 2 of 5, 1 error and interval 6 to 79 %.",
        "points, all cases, demo:script: 15 and interval 15 to 15.",
        "points, all cases, 1 earlier, demo:script: 15 and interval 15 to 15.",
    ]
    assert "passes, joins, demo:script: 0 of 1, 1 error and interval 0 to 79 %." in repr(by_case)
    assert "points, <plots>, demo:script: 15 and interval 10 to 20." in repr(by_case)
    assert "<plots>" not in by_case.svg
    assert len(plain.frame) == 16


async def test_an_unknown_name_and_an_empty_history_are_said(tmp_path: Path) -> None:
    async with Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)) as workspace:
        assert repr(await scores_chart(workspace)) == NOTHING
        with pytest.raises(UsageError, match="There is no evaluation suite"):
            await scores_chart(workspace, name="suite")
        await workspace.evaluate(None, CASES, [points], models=MODEL, name="suites")
        with pytest.raises(UsageError, match=r"There is no evaluation suite\. Did you mean suites\?"):
            await scores_chart(workspace, name="suite")
