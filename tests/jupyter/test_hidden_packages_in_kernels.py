"""Files beside a notebook that have the names of packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import forked_kernels
from support.forked_kernels import KernelTemplate
from support.kernel import running_kernel

pytestmark = pytest.mark.kernel

SENTENCE = "The package pandas is hidden by ./pandas.py; rename that file, and start again."


@pytest.fixture
def imports(kernel_template: KernelTemplate) -> Iterator[None]:
    """Kernels that have imported nothing yet."""
    forked_kernels.start_as_usual()
    yield
    forked_kernels.start_from(kernel_template.address)


@pytest.mark.usefixtures("imports")
def test_a_file_of_the_users_hides_pandas(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("DATA = 1\n")
    (tmp_path / "duckdb.py").write_text("DATA = 2\n")
    with running_kernel(tmp_path, PLANCK_NB_SESSIONS_DIR=str(tmp_path / "sessions")) as kernel:
        loaded = kernel.run("import pandas\n%load_ext planck_nb")
        assert loaded.text.strip() == SENTENCE, "duckdb is found where it is installed"
        assert kernel.run("%planck hello there").status == "ok"
        for verb in ("sql select 1 as x", "agents"):
            assert kernel.run(f"%planck {verb}").error == f"UsageError: {SENTENCE}"
        assert "AttributeError" in kernel.run("%planck agents --debug").error
