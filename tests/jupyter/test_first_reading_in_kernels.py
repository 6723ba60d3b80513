"""A query that reads sessions for the first time says how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kernel import running_kernel
from support.memory_of_verbs import write_session

pytestmark = pytest.mark.kernel

SENTENCE = "Reading sessions for the first time: "


@pytest.mark.timeout(180)
def test_a_first_query_shows_its_progress_and_the_second_has_none(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb")
        shown = kernel.run("import planck_nb; print(planck_nb.get_workspace().sessions_dir)")
        folder = Path(shown.text.strip())
        folder.mkdir(parents=True, exist_ok=True)
        write_session(folder, "00000000000000ab", "long", 48_000_000)
        first = kernel.run("%planck sql SELECT count(*) AS n FROM messages")
        assert [text for text in first.data("text/plain") if SENTENCE in text]
        second = kernel.run("%planck sql SELECT count(*) AS n FROM messages")
        assert len(second.outputs) == 1
        assert second.data("text/html") == first.data("text/html")
