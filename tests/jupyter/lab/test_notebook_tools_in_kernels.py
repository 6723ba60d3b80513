"""Agents that propose cells in a real kernel, with a client that speaks as the JupyterLab extension does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.kernel import Cell, Kernel, running_kernel

from planck_nb.jupyter.lab.protocol import PROTOCOL

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

HARNESS = """
import planck_nb
from IPython.display import display
from planck_nb.testing import Call, Reply, scripted_model

agents = []

def agent(*replies):
    "A new agent, with the name a0, a1 and so on, that makes these calls or says these texts."
    script = [reply if isinstance(reply, str) else Reply(calls=[Call(*each) for each in reply]) for reply in replies]
    agents.append(planck_nb.get_workspace().add_agent(f"a{len(agents)}", model=scripted_model(script)))

def told():
    "What the newest agent was told: prompts and results of calls."
    messages = [entry.message for entry in agents[-1].state.messages if entry.message.type != "assistant"]
    texts = [each.text if each.type == "user" else each.content[0].text for each in messages]
    display({"application/json": texts, "text/plain": ""}, raw=True)
"""

CELL = {"id": "c1", "cell_type": "code", "source": "x = 1", "count": 3, "output": "1", "is_stale": True}
VERSION = hashlib.sha256(b"x = 1").hexdigest()[:12]
READ = [("read_cell", {"cell": "c1"})]
CHANGE = [("propose", {"kind": "change", "cell": "c1", "source": "x = 2", "why": "It is two."})]


class Page:
    """A page that has one cell, and decides as it is told."""

    def __init__(self, kernel: Kernel, protocol: int = PROTOCOL, client: str = "") -> None:
        self.kernel = kernel
        self.id = uuid4().hex
        self.source = CELL["source"]
        self.sets: list[dict[str, Any]] = []
        self.started: list[str] = []
        self.decision = "accepted"
        self.notebook: dict[str, Any] = {}
        """What is unusual about its cells."""
        session = kernel.client.session.session
        hello = {"client": client or session, "path": "work.ipynb", "version": "1", "protocol": protocol}
        self._send("comm_open", target_name="planck.lab", data=hello)
        self._ask("comm_open", target_name="planck.ask", data={"client": hello["client"]})

    def receive(self, message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] != "comm_msg" or content["comm_id"] != self.id:
            return
        data = content["data"]
        match data["type"]:
            case "cells wanted":
                cells = {"cells": [{**CELL, "source": self.source}], **self.notebook}
                self._send("comm_msg", data={"type": "cells", "request": data["request"], **cells})
            case "run wanted":
                self.started.append(data["source"])
                problem = "It was edited." if data["source"] != self.source else ""
                self._send("comm_msg", data={"type": "started", "request": data["request"], "problem": problem})
            case "sets":
                self.sets = data["sets"]
                for each in self.sets:
                    open_ = [change["id"] for change in each["changes"] if change["state"] == "open"]
                    if open_ and self.decision:
                        decisions = [{"change": name, "state": self.decision, "reason": "so"} for name in open_]
                        decided = {"type": "decided", "request": "d", "set": each["id"], "decisions": decisions}
                        self._ask("comm_msg", data=decided)

    def _ask(self, kind: str, **content: object) -> None:
        self._send(kind, comm_id=f"ask-{self.id}", **content)

    def _send(self, kind: str, **content: object) -> None:
        client = self.kernel.client
        client.shell_channel.send(client.session.msg(kind, {"comm_id": self.id, **content}))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        assert kernel.run("%load_ext planck_nb").status == "ok"
        assert kernel.run(HARNESS).status == "ok"
        yield kernel


def prompt(
    kernel: Kernel, *replies: object, on_message: Callable[[dict[str, Any]], None] | None = None, options: str = ""
) -> list[str]:
    """What a new agent was told that makes these calls."""
    assert kernel.run(f"agent(*{list(replies)!r}, 'done', 'done')").status == "ok"
    name = kernel.run("print(agents[-1].name)").text.strip()
    cell = kernel.finish(kernel.start(f"%%planck {name} --tools notebook {options}\ngo"), on_message=on_message)
    assert cell.status == "ok", cell.error
    return told(kernel)


def told(kernel: Kernel) -> list[str]:
    found = kernel.run("told()").data("application/json")[0]
    assert isinstance(found, list)
    return found


def test_without_a_page_a_cell_is_shown_below_the_prompt_and_the_agent_knows(kernel: Kernel) -> None:
    assert (
        kernel.run("agent([('propose', {'kind': 'insert', 'source': 'y = 1', 'after': 'start'})], 'done')").status
        == "ok"
    )
    cell: Cell = kernel.run("%planck a0 --tools notebook go")
    assert any("```python\ny = 1\n```" in text for text in cell.data("text/markdown"))
    result = told(kernel)[-1]
    assert "No page shows this notebook" in result
    assert "you will not be told" in result
    count = kernel.run("value = 1\nvalue").outputs[0]["execution_count"]
    call = [("propose", {"kind": "change", "cell": f"In [{count}]", "source": "value = '<b>'\nvalue"})]
    assert kernel.run(f"agent({call!r}, 'done')").status == "ok"
    changed: Cell = kernel.run("%planck a1 --tools notebook go")
    [shown] = [text for text in changed.data("text/plain") if "@@" in text]
    assert "-value = 1\n+value = '<b>'\n value" in shown
    [page] = [text for text in changed.data("text/html") if "<script>" in text]
    assert "&lt;b&gt;" in page
    assert "<b>'" not in page
    assert "cannot be listed" in prompt(kernel, [("list_cells", {})])[-1]


@pytest.mark.parametrize("client", ["", "elsewhere"], ids=["page", "server"])
def test_a_proposal_waits_for_the_person(kernel: Kernel, client: str) -> None:
    """The server executes a cell for a page, with a session of its own."""
    page = Page(kernel, client=client)
    results = prompt(kernel, [("list_cells", {})], READ, CHANGE, on_message=page.receive)
    assert results[1] == "1. c1 code, In [3], edited since: x = 1"
    assert "Its output of an earlier text of the cell:\n1" in results[2]
    assert results[3] == "Accepted: change of cell c1."
    [proposed] = page.sets[-1]["changes"]
    assert (proposed["before"], proposed["source"], proposed["why"]) == ("x = 1", "x = 2", "It is two.")


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([CHANGE], "Read the cell first"),
        ([READ, [("propose", {"kind": "change", "cell": "c1"})]], "whole new source"),
        ([[("propose", {"kind": "delete", "cell": "c2"})]], "There is no cell c2"),
        ([[("propose", {"kind": "insert", "source": "", "after": "c9"})]], "There is no cell c9"),
        ([[("propose", {"kind": "insert", "source": "", "after": "c1", "cell": "c1"})]], "There is a cell c1 already"),
    ],
)
def test_what_cannot_be_proposed_is_said(kernel: Kernel, calls: list[object], words: str) -> None:
    page = Page(kernel)
    assert words in prompt(kernel, *calls, on_message=page.receive)[-1]
    assert all(each["decided"] is not None for each in page.sets)


@pytest.mark.parametrize(
    ("notebook", "kind", "words"),
    [
        ({"writable": False}, "change", "The notebook is read-only"),
        ({"cells": [{**CELL, "editable": False}]}, "change", "The cell is not editable."),
        ({"cells": [{**CELL, "deletable": False}]}, "delete", "The cell cannot be deleted."),
        ({"cells": [{**CELL, "source": "y = 1"}]}, "change", "read it again"),
        ({"cells": [CELL, CELL]}, "change", "Several cells have the id c1"),
        ({"cells": []}, "delete", "There is no cell c1"),
    ],
    ids=["read-only", "editable", "deletable", "edited", "doubled", "gone"],
)
def test_what_the_notebook_does_not_allow_is_said(
    kernel: Kernel, notebook: dict[str, Any], kind: str, words: str
) -> None:
    page = Page(kernel)

    def receive(message: dict[str, Any]) -> None:
        page.receive(message)
        if message["msg_type"] == "comm_msg" and message["content"]["data"].get("type") == "cells wanted":
            page.notebook = notebook  # after the first reading

    calls = [("propose", {"kind": kind, "cell": "c1", **({"source": "x = 2"} if kind == "change" else {})})]
    assert words in prompt(kernel, READ, calls, on_message=receive)[-1]
    assert all(each["decided"] is not None for each in page.sets)


@pytest.mark.parametrize(
    ("version", "result", "started"),
    [(VERSION, "It runs after the cell that is running now", ["x = 1"]), ("0" * 12, "returns its version", [])],
)
def test_the_version_that_was_read_is_run(kernel: Kernel, version: str, result: str, started: list[str]) -> None:
    page = Page(kernel)
    run = [("run_cell", {"cell": "c1", "version": version})]
    results = prompt(kernel, READ, run, on_message=page.receive, options="--allow run_cell")
    assert f"code, In [3], edited since, version {VERSION}:" in results[1]
    assert result in results[2]
    assert page.started == started


def test_a_decision_after_the_deadline_begins_the_next_prompt(kernel: Kernel) -> None:
    page = Page(kernel)
    page.decision = ""
    assert kernel.run("approvals = planck_nb.get_workspace().approvals; approvals.deadline = 0.2").status == "ok"
    assert "still open" in prompt(kernel, READ, CHANGE, on_message=page.receive)[-1]
    page.decision = "refused"
    page.receive({"msg_type": "comm_msg", "content": {"comm_id": page.id, "data": {"type": "sets", "sets": page.sets}}})
    name = kernel.run("print(agents[-1].name)").text.strip()
    assert kernel.run(f"approvals.deadline = 300; print({name!r})").status == "ok"
    assert kernel.run(f"%%planck {name}\nagain").status == "ok"
    assert told(kernel)[-1] == "[Refused: change of cell c1 (so).]\n\nagain"


@pytest.mark.parametrize(("protocol", "words"), [(PROTOCOL + 1, "newer than"), (PROTOCOL - 1, "older than")])
def test_a_page_of_another_version_is_told_what_to_update(kernel: Kernel, protocol: int, words: str) -> None:
    page = Page(kernel, protocol=protocol)
    results = prompt(kernel, READ, on_message=page.receive)
    kernel.run("")
    assert f"{words} planck_nb in this kernel" in results[-1]
    assert f"problem  extension  The JupyterLab extension is {words}" in kernel.run("%planck doctor").plain


def test_the_doctor_knows_the_pages(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext planck_nb").status == "ok"
        found = [line for line in kernel.run("%planck doctor").plain.splitlines() if "extension" in line]
        assert found[0].startswith("note     extension  No page shows this notebook")
        Page(kernel)
        kernel.run("")
        assert "Extension 1 on a page with work.ipynb: everything works." in kernel.run("%planck doctor").plain


def test_a_resumed_session_shows_its_open_proposals_again(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext planck_nb").status == "ok"
        assert kernel.run(f"{HARNESS}\nplanck_nb.get_workspace().approvals.deadline = 0.1").status == "ok"
        page = Page(kernel)
        page.decision = ""
        assert "still open" in prompt(kernel, READ, CHANGE, on_message=page.receive)[-1]
        before = page.sets
    with running_kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext planck_nb").status == "ok"
        assert kernel.run("%planck resume").status == "ok"
        kernel.run("from planck_nb.jupyter.extension import _loaded")
        found = kernel.run("print([each.id for x in _loaded.values() for each in x._link.book.sets() if each.is_open])")
        assert before[-1]["id"] in found.text
