"""Reading an error page takes time in proportion to it."""

from __future__ import annotations

import pytest
from support.growth import check_growth

from planck_nb.ai.status_errors import plain_words


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["<title>", "<title", "<title><", "<"])
def test_reading_an_error_page_is_linear(name: str) -> None:
    check_growth(lambda text: plain_words(text.encode()), name, 16_000)
