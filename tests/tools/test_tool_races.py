"""What was approved is what is opened, whatever links appear on the way meanwhile."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.agents import calling, until

from planck_nb import Agent, BuiltinTools
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.events import ApprovalRequest
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.testing import scripted_model
from planck_nb.tools import no_links
from planck_nb.tools.files import Files

ROUNDS = 300
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A working directory, and another folder; both have a folder `d` with a file `f`."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        (folder / "d").mkdir(parents=True)
        (folder / "d" / "f").write_text(folder.name)
    return inside, outside


@contextmanager
def exchanging(path: Path, target: Path) -> Iterator[None]:
    """Exchange `path` and a link to `target` as fast as possible, so that there always is one of them."""
    over = threading.Event()
    link = path.with_name("link")
    link.symlink_to(target)
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = os.fsencode(path), os.fsencode(link)

    def exchange() -> None:
        while not over.is_set():
            assert libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if path.is_symlink() and path.readlink() == target:
            assert libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0


async def results(root: Path, calls: list[tuple[str, dict[str, object]]], *allowed: str) -> list[str]:
    """The results of the calls of an agent that may do what the rules allow, and is denied everything else."""
    policy = Policy(root=root, default={"read": "allow", "write": "deny", "execute": "deny"}, outside="deny")
    policy = policy.with_rules(Rule.parse("allow", rule) for rule in allowed)
    agent = Agent(
        model=scripted_model(calling(*calls)),
        tools=BuiltinTools.all(cwd=root, files=Files()),
        approvals=Approvals(policy),
    )
    await agent.prompt("go")
    [message] = [entry.message for entry in agent.state.messages if isinstance(entry.message, ToolResultMessage)]
    return [part.text for part in message.content]


@pytest.mark.parametrize("name", ["d", "d/f"])
async def test_no_read_is_led_elsewhere(folders: tuple[Path, Path], name: str) -> None:
    inside, outside = folders
    with exchanging(inside / name, outside / name):
        texts = await results(inside, [("read", {"path": "d/f"})] * ROUNDS)
    assert not [text for text in texts if text == "outside"]
    assert "inside" in texts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d", "d/f"])
async def test_no_write_is_led_elsewhere(folders: tuple[Path, Path], name: str) -> None:
    inside, outside = folders
    calls: list[tuple[str, dict[str, object]]] = [
        ("write", {"path": "d/f", "content": "w"}),
        ("edit", {"path": "d/f", "old_string": "out", "new_string": "e"}),
        ("write", {"path": "d/new/deep/f", "content": "w"}),
    ]
    with exchanging(inside / name, outside / name):
        await results(inside, calls * (ROUNDS // 3), "write")
    assert {path.relative_to(outside).as_posix(): path.is_dir() or path.read_text() for path in outside.rglob("*")} == {
        "d": True,
        "d/f": "outside",
    }
    (inside / "d/f").write_text("out")
    (text, *others) = await results(inside, [calls[1], calls[2]], "write")  # the same calls, with nothing exchanged
    assert text.startswith("Edited d/f")
    assert (inside / "d/f").read_text() == "e"
    assert others[0].startswith("Written d/new/deep/f")


async def test_a_path_that_was_outside_when_it_was_checked_is_not_opened_later(folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    (inside / "d/f").rename(inside / "own")
    (inside / "d/f").symlink_to("../own")
    with exchanging(inside / "d/f", outside / "d/f"):
        texts = await results(inside, [("read", {"path": "d/f"})] * ROUNDS)
    assert not [text for text in texts if text == "outside"]
    assert await results(inside, [("read", {"path": "d/f"})]) == ["inside"]  # when nothing is exchanged


@pytest.mark.process
async def test_no_command_is_led_elsewhere(folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    call: tuple[str, dict[str, object]] = ("bash", {"command": "cat f", "cwd": "d"})
    rule = f"cwd={inside / 'd'} bash:cat f"
    with exchanging(inside / "d", outside / "d"):
        texts = await results(inside, [call] * 60, rule)
    assert "outside" not in texts
    assert await results(inside, [call], rule) == ["inside"]  # the same command runs when nothing is exchanged


@pytest.mark.process
async def test_without_a_race_links_are_followed_as_before(folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    (inside / "alias").symlink_to("d")
    (inside / "away").symlink_to(outside / "d")
    (inside / "hanging").symlink_to(outside / "new")
    calls: list[tuple[str, dict[str, object]]] = [
        ("read", {"path": "alias/f"}),
        ("read", {"path": "alias/../d//f"}),
        ("read", {"path": f"/proc/self/root{inside}/d/f"}),
        ("write", {"path": "alias/g", "content": "g"}),
        ("bash", {"command": "cat f", "cwd": "alias/"}),
    ]
    texts = await results(inside, calls, "write", "bash")
    assert texts[:3] == ["inside"] * 3
    assert texts[3:] == ["Written alias/g (new file, 1 bytes).", "inside"]
    away = await results(inside, [("read", {"path": "away/f"}), ("write", {"path": "hanging", "content": ""})])
    assert all("is forbidden, because it is outside of" in text for text in away)


async def asked(agent: Agent) -> ApprovalRequest:
    event = await until(agent.prompt("go"), "approval_request")
    assert isinstance(event, ApprovalRequest)
    return event


async def result(agent: Agent) -> str:
    while agent.status != "idle":
        await until(agent.subscribe(since=0), "turn_end")
    [message] = [entry.message for entry in agent.state.messages if isinstance(entry.message, ToolResultMessage)]
    return message.content[0].text


def waiting(root: Path, name: str, **args: object) -> Agent:
    return Agent(
        model=scripted_model(calling((name, args))),
        tools=BuiltinTools.all(cwd=root, files=Files()),
        approvals=Approvals(Policy.ask_before_changes(root)),
    )


ARGUMENTS: dict[str, dict[str, object]] = {
    "write": {"content": "w"},
    "edit": {"old_string": "side", "new_string": "e"},
}


@pytest.mark.parametrize("name", ["d", "d/f"])
@pytest.mark.parametrize("call", ARGUMENTS)
async def test_a_link_that_appears_while_a_person_decides_is_refused(
    folders: tuple[Path, Path], name: str, call: str
) -> None:
    inside, outside = folders
    agent = waiting(inside, call, path="d/f", **ARGUMENTS[call])
    request = await asked(agent)
    (inside / name).rename(inside / "aside")
    (inside / name).symlink_to(outside / name)
    agent.decide(request.id, allow=True)
    assert f"{inside / name} is a link, and was none when the call was checked; make the call again." in await result(
        agent
    )
    assert (outside / "d/f").read_text() == "outside"


@pytest.mark.process
async def test_a_folder_that_becomes_a_link_while_a_person_decides_runs_nothing(folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    agent = waiting(inside, "bash", command="touch made", cwd="d")
    request = await asked(agent)
    (inside / "d").rename(inside / "aside")
    (inside / "d").symlink_to(outside)
    agent.decide(request.id, allow=True)
    refusal = f"{inside / 'd'} is a link, and was none when the call was checked; make the call again."
    assert refusal in await result(agent)
    assert not (outside / "made").exists()


@pytest.mark.parametrize(("call", "path"), [("write", "d/f"), ("edit", "d/f"), ("write", "new")])
async def test_a_file_that_changes_or_appears_while_a_person_decides_is_not_replaced(
    folders: tuple[Path, Path], call: str, path: str
) -> None:
    inside, _ = folders
    agent = waiting(inside, call, path=path, **ARGUMENTS[call])
    request = await asked(agent)
    (inside / path).write_text("my work of today in side")
    agent.decide(request.id, allow=True)
    assert f"{path} has changed on disk since the user was asked" in await result(agent)
    assert (inside / path).read_text() == "my work of today in side"


async def test_several_approved_edits_of_one_file_all_count(folders: tuple[Path, Path]) -> None:
    inside, _ = folders
    (inside / "d/f").write_text("a b c")
    edits: list[tuple[str, dict[str, object]]] = [
        ("edit", {"path": "d/f", "old_string": letter, "new_string": letter.upper()}) for letter in "abc"
    ]
    agent = Agent(
        model=scripted_model(calling(*edits)),
        tools=BuiltinTools.all(cwd=inside, files=Files()),
        approvals=Approvals(Policy.ask_before_changes(inside)),
    )
    run = agent.prompt("go")
    async for event in run:
        waiting = agent.state.pending_approvals
        if event.type == "approval_request" and len(waiting) == len(edits) and event.id == waiting[-1].id:
            for call in waiting:
                agent.decide(call.id, allow=True)
    assert (inside / "d/f").read_text() == "A B C"


async def test_a_hard_link_is_not_written_through(folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    (inside / "hard").hardlink_to(outside / "d/f")
    await results(inside, [("write", {"path": "hard", "content": "w"})], "write")
    assert (outside / "d/f").read_text() == "outside"


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), Path("/")):
        with pytest.raises(OSError, match=r"Is a directory|Not a regular file"):
            no_links.open_file(path)


def test_systems_that_cannot_open_from_folders_check_after_opening(folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    with no_links.open_checked(inside / "d/f") as file:
        assert file.read() == b"inside"
    (inside / "way").symlink_to(outside)
    with pytest.raises(OSError, match="is a link"):
        no_links.open_checked(inside / "way/d/f")
