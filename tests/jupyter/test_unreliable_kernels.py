"""`%load_ext` warns of versions of ipykernel that stop answering by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kernel import running_kernel

from planck_nb.jupyter.frontend import unreliable_kernel

pytestmark = pytest.mark.kernel

WARNING = (
    "ipykernel 7.2.0 can stop answering in the middle of a notebook; "
    "run `%pip install -U ipykernel`, then restart the kernel.\n"
)


@pytest.mark.parametrize("installed", ["7.0.0", "7.0.0a1", "7.1.0", "7.2", "7.3.1"])
def test_versions_that_stop_answering(installed: str) -> None:
    assert installed in (unreliable_kernel(installed) or "")


@pytest.mark.parametrize("installed", ["6.17.1", "6.31.0", "7.4.0", "7.10.0", "7.30", "8.0.1", "17.1.0"])
def test_versions_that_go_on_answering(installed: str) -> None:
    assert unreliable_kernel(installed) is None


def test_the_warning_stands_in_the_cell_and_the_extension_works(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("from planck_nb.jupyter import extension\nextension.version = lambda name: '7.2.0'")

        assert kernel.run("%load_ext planck_nb").text == WARNING
        assert kernel.run("%planck hello").status == "ok"
