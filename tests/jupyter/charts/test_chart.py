"""Charts as images, and the text in them."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pandas as pd
import pytest

from planck_nb.jupyter.charts import Chart
from planck_nb.jupyter.charts.svg import cut, document, plain, text, width_of


def test_cut_text_fits_and_keeps_what_it_can() -> None:
    assert cut("short", 100) == "short"
    assert cut("word " * 50, 80) == "word wor…"
    for max_width in (0, 1, 20, 77.7):
        assert width_of(cut("Ein langer Satz, 漢字, und noch mehr.", max_width)) <= max(max_width, width_of("…"))
    assert plain("a\n\tb\x07c\ud800") == "a b\ufffdc\ufffd"


def test_the_image_in_the_page_is_the_saved_file(tmp_path: Path) -> None:
    drawn = document(32, "Time", "A turn", text(0, 20, "turn 0"))
    chart = Chart(drawn, pd.DataFrame(), summary="Timeline: 1 agent", description="A turn")
    saved = chart.save(tmp_path / "time.svg")
    bundle = chart._repr_mimebundle_(include=None, exclude=None)
    data = bundle["text/html"].split("base64,")[1].split('"')[0]
    assert saved.read_text(encoding="utf-8") == b64decode(data).decode() == bundle["image/svg+xml"] == chart.svg
    assert bundle["text/plain"] == "Timeline: 1 agent"
    with pytest.raises(OSError, match="nowhere"):
        chart.save(tmp_path / "nowhere" / "time.svg")
