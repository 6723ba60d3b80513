"""Help is short: subjects first, then a page on each with examples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.keys import PLACES
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        yield Notebook(Controller(workspace))


async def page(notebook: Notebook, about: str = "") -> str:
    return str(await VERBS["help"].run(notebook, about))


async def test_help_is_short_and_names_every_verb(notebook: Notebook) -> None:
    text = await page(notebook)
    assert len(text.splitlines()) <= 25
    assert len(text) < 2_500
    words = text.split()
    assert all(name in words for name in VERBS)
    assert all(verb.subject in text for verb in VERBS.values())


async def test_every_subject_has_a_page_with_examples(notebook: Notebook) -> None:
    for verb in VERBS.values():
        text = await page(notebook, verb.subject)
        assert text == await page(notebook, f'"{verb.subject}"')
        if verb.subject.lower() not in VERBS:
            assert text == await page(notebook, verb.subject.lower())
        assert f"%planck {verb.example}".strip() in text
        assert verb.summary in text
        assert len(text.splitlines()) <= 22


@pytest.mark.parametrize(("about", "found"), [("running", "Running agents:"), ("settings", "Settings:")])
async def test_a_word_of_a_subject_is_enough(notebook: Notebook, about: str, found: str) -> None:
    assert (await page(notebook, about)).startswith(found)


async def test_every_verb_has_a_page(notebook: Notebook) -> None:
    for name, verb in VERBS.items():
        assert await page(notebook, name) == verb.help


async def test_prompts_have_examples(notebook: Notebook) -> None:
    text = await page(notebook, "prompt")
    assert text == await page(notebook, "prompts")
    for example in ("--image photo.png", "--output Invoice", "@fig", "--expand"):
        assert example in text


async def test_keys_have_a_page(notebook: Notebook) -> None:
    text = await page(notebook, "keys")
    assert text == await page(notebook, "shortcuts")
    assert "\n  Ctrl+.  " in text
    for place in PLACES:
        assert f"{place.where}:" in text
        assert all(f"  {key.does}\n" in text for key in place.keys)


async def test_all_verbs_can_be_listed(notebook: Notebook) -> None:
    text = await page(notebook, "all")
    assert all(verb.summary in text for verb in VERBS.values())


@pytest.mark.parametrize(("about", "near"), [("exprot", "export"), ("settigns", "Settings"), ("promt", "prompt")])
async def test_a_misspelt_subject_is_answered_with_the_nearest(notebook: Notebook, about: str, near: str) -> None:
    with pytest.raises(UsageError, match=rf"There is no topic {about}\. Nearest is .*`%planck help {near}`"):
        await page(notebook, about)
