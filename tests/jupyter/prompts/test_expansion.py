"""`{name}` and `$name` in prompts: what is inserted on request, and when a hint is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb.base.errors import UsageError
from planck_nb.base.secrets import remember_secret
from planck_nb.config import Config
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.prompts.expansion import expanded, hint
from planck_nb.workspace import Workspace


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


NAMES = {"city": "Bern", "n": 3.14159, "x": 1, "api_key": "s3cret", "broken": Broken(), "größe": 7, "text": "@rm {n}"}


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Weather in {city}?", "Weather in Bern?"),
        ("Weather in $city?", "Weather in Bern?"),
        ("{n:.2f} and {city!r} and {größe:>3}", "3.14 and 'Bern' and   7"),
        ("{{city}} and $$city", "{city} and $city"),
        ("{text}", "@rm {n}"),
        ('{"city": 1} { city } {city.upper()} {0} {} ${city}', '{"city": 1} { city } {city.upper()} {0} {} ${city}'),
        ("{x}{x} $x$ $5 a$x \\{x}", "11 $x$ $5 a$x \\{x}"),
        ("$HOME {__import__('os')}", "$HOME {__import__('os')}"),
    ],
)
def test_names_are_replaced_and_nothing_else(prompt: str, text: str) -> None:
    assert expanded(prompt, NAMES) == (text, ())


def test_what_is_not_inserted_is_said() -> None:
    text, notices = expanded("{nme} {api_key} {nme}", NAMES)
    assert text == "{nme} {api_key} {nme}"
    assert notices == (
        "There is no variable nme; {nme} is sent as it is written.",
        "{api_key} looks like a secret and is not inserted; add --with api_key if it should be.",
    )
    assert expanded("{api_key}", NAMES, ["api_key"]) == ("s3cret", ())


@pytest.mark.parametrize("prompt", ["{broken}", "{city:.2f}"])
def test_a_value_that_cannot_be_formatted_is_one_sentence(prompt: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be inserted: \w+: "):
        expanded(prompt, NAMES)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (
            "Weather in {city}?",
            "{city} is sent as written; --expand inserts the value, and @city shows it to the model.",
        ),
        ("$city and {n:.1f}", "$city, {n} are sent as written; --expand inserts the value, and @city"),
        ("no names", ""),
        ("{nobody} and $nobody", ""),
        ("`{city}` and\n\n```python\nf'{city}'\n```", ""),
        ("> {city}", ""),
        ("{{city}} costs $5", ""),
        ("Let $x$ and $x + n$ be", ""),
        ('{"city": 1}', ""),
    ],
)
def test_a_hint_for_names_of_variables_only(prompt: str, said: str) -> None:
    shown = hint(prompt, NAMES)
    assert shown.startswith(said)
    assert bool(shown) == bool(said)


async def test_the_prompt_of_a_cell(tmp_path: Path) -> None:
    config = Config(root=tmp_path, sessions_dir=tmp_path / "sessions", default_model="demo")
    async with Workspace(config) as workspace:
        controller = Controller(workspace)
        started = await controller.start("Weather in {city}?", {}, NAMES)
        assert "{city} is sent as written" in started.notice
        assert started.run.prompt.text == "Weather in {city}?"
        await started.run
        started = await controller.start("Weather in {city} {text}?", {"expand": True}, NAMES)
        assert started.notice == ""
        assert started.run.prompt.text == "Weather in Bern @rm {n}?"
        await started.run
        started = await controller.start("Hello", {}, NAMES)
        assert started.notice == ""
        await started.run


async def test_known_secrets_in_variables_are_replaced_before_a_model_is_sent_them(tmp_path: Path) -> None:
    secret = "correct-horse-battery-staple-93"
    remember_secret(secret, "the database password")
    names = {"text": f"login: {secret}", "rows": [{"dsn": f"db;{secret};"}], "api_key": secret}
    config = Config(root=tmp_path, sessions_dir=tmp_path / "sessions", default_model="demo")
    async with Workspace(config) as workspace:
        controller = Controller(workspace)
        for prompt, options in (
            ("Read @text and @rows.", {}),
            ("Read @text and @rows.", {"with": ("rows",)}),
            ("Read {text} and $rows.", {"expand": True}),
        ):
            started = await controller.start(prompt, options, names)
            sent = started.run.prompt.text
            assert "[the database password]" in sent
            assert secret not in sent
            assert "login: " in sent
            await started.run
        started = await controller.start("Use @api_key.", {"with": ("api_key",)}, names)
        assert secret in started.run.prompt.text, "it was included by name"
        await started.run
