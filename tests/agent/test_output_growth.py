"""Reading an answer takes time in proportion to it."""

from __future__ import annotations

import pytest
from support.growth import check_growth

from planck_nb.agent.output import OutputMismatch, output_spec


def _read(text: str) -> None:
    with pytest.raises(OutputMismatch):
        output_spec(int).read(text)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["```json\n", "```\n\n", "\n", "```", "{", "["])
def test_reading_an_answer_is_linear(name: str) -> None:
    check_growth(_read, name, 100_000)


def test_a_fenced_answer_with_blank_lines_is_read_at_once() -> None:
    check_growth(lambda text: _read(f"```json\n{text}x"), "\n", 15_000)
