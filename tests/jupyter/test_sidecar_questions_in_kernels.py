"""Questions of a real sidecar in kernels without a browser: declined, or asked by `input` if a person types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.asking_sidecar import describe
from support.kernel import Kernel, running_kernel

pytestmark = pytest.mark.timeout(120)

ASK = '%planck --new --allow execute:sidecar:asker/* Please call deploy with "shop".'
SIMULATE_IPYKERNEL_6 = "from planck_nb.jupyter import frontend\nfrontend.kernel_handles_clicks = lambda kernel: False"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    home = tmp_path_factory.mktemp("home")
    describe(home)
    folder = tmp_path_factory.mktemp("notebook")
    with running_kernel(folder, PLANCK_NB_MODEL="demo", HOME=str(home)) as kernel:
        kernel.run("%load_ext planck_nb")
        assert "asker: connected" in kernel.run("%planck sidecar start").plain
        yield kernel


@pytest.mark.parametrize("options", ["", " --background"])
def test_without_a_person_a_question_is_declined(kernel: Kernel, options: str) -> None:
    cell = kernel.run(ASK.replace(" --new", f" --new{options}"))
    assert cell.status == "ok", cell.error
    if options:
        cell = kernel.run("print((await _).text)")
    assert "decline {}" in cell.plain


def test_a_question_is_answered_by_typing(kernel: Kernel) -> None:
    kernel.run(SIMULATE_IPYKERNEL_6)
    sent = kernel.start(ASK, allow_stdin=True)
    prompts = []
    for line in ("y", "", "2", "", "1", ""):
        prompts.append(kernel.question())
        kernel.answer(line)
    cell = kernel.finish(sent)
    assert "The sidecar asker asks: How is shop to be deployed⟨U+202E⟩?" in cell.text
    assert prompts[0] == "Answer? [y]es, [n]o: "
    assert prompts[1] == "Branch: What to deploy [main]> "
    assert 'accept {"branch": "main", "copies": 2, "dry": true, "place": "eu"}' in cell.plain
