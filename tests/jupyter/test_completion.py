from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.kernel import TIMEOUT, Kernel, running_kernel

from planck_nb.jupyter.completion import Known, suggest
from planck_nb.jupyter.verbs import VERBS
from planck_nb.sessions import Session

KNOWN: Known = {
    "verb": lambda: VERBS,
    "agent": lambda: ["ann", "bob"],
    "session": lambda: ["calm-fox", "calm-owl"],
    "provider": lambda: ["demo", "google"],
    "provider:model": lambda: ["demo:small", "google:big"],
    "level": lambda: ["low", "high"],
    "view": lambda: ["messages", "sessions", "orders"],
    "tools": lambda: ["add"],
    "notebook": lambda: ["add", "orders"],
}


@pytest.mark.parametrize(
    ("cell", "word", "found"),
    [
        ("%planck sql -", "-", ["--output", "--as", "--limit", "--debug"]),
        ("%planck exp", "exp", ["export"]),
        ("x = %planck compact-", "compact-", ["compact-store"]),
        ("rows['a'], y = %planck compact-", "compact-", ["compact-store"]),
        ("for i in range(2):\n    %planck ag", "ag", ["agents"]),
        ("%planck abort ", "", ["ann", "bob"]),
        ("%planck delete calm-f", "calm-f", ["calm-fox"]),
        ("%planck delete calm-fox --", "--", ["--yes", "--debug"]),
        ("%planck export ", "", ["calm-fox", "calm-owl"]),
        ("%planck help mod", "mod", ["model", "models"]),
        ("%planck models g", "g", ["google"]),
        ("%planck model demo:", "demo:", ["demo:small"]),
        ("%planck search pump --session ", "", ["calm-fox", "calm-owl"]),
        ("%planck search pump -a ", "", ["ann", "bob"]),
        ("%planck sql --as ", "", ["df", "pl", "arrow"]),
        ("%planck sql --as=a", "--as=a", ["--as=arrow"]),
        ("%planck sql --limit ", "", []),
        ("%planck sql SELECT * FROM m", "m", ["messages"]),
        ("%planck --mod", "--mod", ["--model"]),
        ("%planck --thinking ", "", ["low", "high"]),
        ("%planck --tools a", "a", ["add"]),
        ("%planck --new what is @o", "@o", ["@orders"]),
        ("%planck what is ex", "ex", []),
        ("%%planck a", "a", ["ann"]),
        ("%%planck s", "s", ["sql"]),
        ("%%planck help ", "", []),
        ("%%planck --quiet -m demo ", "", ["ann", "bob", "sql"]),
        ("%%planck ann --model d", "d", ["demo:small"]),
        ("%%planck sql --a", "--a", ["--as"]),
        ("%%planck\nlook at @", "@", ["@add", "@orders"]),
        ("%%planck\nlook at or", "or", []),
        ("%%planck sql\nSELECT *\nFROM or", "or", ["orders"]),
        ("%planckish sql ", "", []),
        ("print('%planck') or ex", "ex", []),
        ("'", "'", []),
        ("", "", []),
    ],
)
def test_a_word_may_become(cell: str, word: str, found: list[str]) -> None:
    assert suggest(cell, cell.count("\n"), cell.rpartition("\n")[2], KNOWN) == (word, found)


def test_a_verb_completes_wherever_a_verb_may_stand() -> None:
    assert suggest("%planck ", 0, "%planck ", KNOWN) == ("", list(VERBS))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    with Session.create(folder / ".planck" / "sessions", name="calm-fox"):
        pass
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb\n%planck --agent ann hello")
        yield kernel


def tab(kernel: Kernel, code: str, cursor: int | None = None) -> dict[str, Any]:
    """What the kernel answers a frontend."""
    sent = kernel.client.complete(code, len(code) if cursor is None else cursor)
    while True:
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
        if reply["parent_header"]["msg_id"] == sent:
            content: dict[str, Any] = reply["content"]
            return content


def test_tab_in_a_kernel(kernel: Kernel) -> None:
    reply = tab(kernel, "%planck compact-")
    assert reply["matches"] == ["compact-store"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (8, 16), "the whole word gives way"
    assert "calm-fox" in tab(kernel, "%planck delete ")["matches"]
    assert tab(kernel, "%planck abort ")["matches"] == ["ann"]
    reply = tab(kernel, "x = %planck model demo:")
    assert reply["matches"], reply
    assert reply["cursor_start"] == len("x = %planck model "), "a colon does not part a word"
    assert tab(kernel, "%%planck sql\nSELECT * FROM tool_")["matches"] == ["tool_calls"]
    assert tab(kernel, "%planck ex tra", 10)["matches"] == ["export"]
    assert tab(kernel, "impor")["matches"] == ["import"], "everything else is as before"


def test_nothing_is_offered_once_the_extension_is_gone(kernel: Kernel) -> None:
    kernel.run("%unload_ext planck_nb")
    assert "compact-store" not in tab(kernel, "%planck compact-")["matches"]
    kernel.run("%load_ext planck_nb")
    assert tab(kernel, "%planck compact-")["matches"] == ["compact-store"]
