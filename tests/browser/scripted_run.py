"""Runs written by hand for the notebooks under test: appends events as an agent would."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planck_nb.agent import events as ev
from planck_nb.agent.effect import Effect
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.base.errors import UsageError
from planck_nb.base.event_log import EventLog
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.view import LiveView


@dataclass
class ScriptedRun:
    """Writes one turn into `log`; `said` is its text so far, `commands` what was done in its view."""

    log: EventLog[ev.AgentEvent] = field(default_factory=EventLog)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    said: str = ""
    commands: asyncio.Queue[tuple[Any, ...]] = field(default_factory=asyncio.Queue)
    refusing: str = ""
    agent_id: str = "a1"
    _seq: int = 0
    _total: Usage = field(default_factory=Usage)
    _cost: float = 0.0

    def view(self) -> LiveView:
        return LiveView(self.log, agent="analyst", actions=self)

    def add(self, kind: Any, /, **payload: Any) -> None:
        self.log.append(kind(self.agent_id, None, 0, self._seq, time.time(), **payload))
        self._seq += 1

    def start(self) -> None:
        self.add(ev.TurnStart, index=0, model="demo:scripted")

    def text(self, text: str) -> None:
        self.said += text
        self.add(ev.TextDelta, text=text)

    def thinking(self, text: str) -> None:
        self.add(ev.ThinkingDelta, text=text)

    def args(self, call: str, name: str, text: str) -> None:
        self.add(ev.ToolArgsDelta, id=call, name=name, text=text)

    def reply(self, text: str, *calls: tuple[str, str, dict[str, Any]]) -> None:
        parts: list[AssistantPart] = [TextPart(text), *(ToolCallPart(*call) for call in calls)]
        usage = Usage(input_tokens=4_100, output_tokens=96)
        self._total += usage
        self._cost += 0.0143
        self.add(
            ev.MessageAppended,
            id=self._seq,
            message=AssistantMessage(tuple(parts), "tool_use" if calls else "stop", usage),
        )
        self.add(ev.UsageDelta, delta=usage, total=self._total, cost=0.0143, total_cost=self._cost)

    def tool(self, call: str, name: str, args: dict[str, Any]) -> None:
        self.add(ev.ToolStart, id=call, name=name, args=args)

    def result(self, call: str, name: str, text: str, *, error: bool = False) -> None:
        self.add(ev.ToolEnd, id=call, name=name, result=text, error=error)

    def results(self, *parts: tuple[str, str, str]) -> None:
        message = ToolResultMessage(tuple(ToolResultPart(*part) for part in parts))
        self.add(ev.MessageAppended, id=self._seq, message=message)

    def end(self) -> None:
        message = AssistantMessage((TextPart(self.said),))
        self.add(ev.TurnEnd, message=message, usage=self._total)
        self.log.close()

    def stop(self, agent_id: str | None = None) -> None:
        self.commands.put_nowait(("stop", agent_id)) if agent_id else self.stopped.set()

    def steer(self, text: str, agent_id: str | None = None) -> None:
        if agent_id is None:
            self._wait_for_turn(text, steer=True)
        elif self.refusing:
            raise UsageError(self.refusing)
        else:
            self.commands.put_nowait(("steer", text, agent_id))

    def queue(self, text: str) -> None:
        self._wait_for_turn(text, steer=False)

    def _wait_for_turn(self, text: str, *, steer: bool) -> None:
        if self.refusing:
            raise UsageError(self.refusing)
        self.commands.put_nowait(("steer" if steer else "queue", text))
        self.add(ev.Queued, prompt_id=f"q{self._seq}", text=text, steer=steer)

    def edit_queued(self, prompt_id: str, text: str, agent_id: str | None = None) -> None:
        assert agent_id in {None, self.agent_id}
        self.commands.put_nowait(("edit", text))
        self.add(ev.Queued, prompt_id=prompt_id, text=text)

    def remove_queued(self, prompt_id: str, agent_id: str | None = None) -> None:
        assert agent_id in {None, self.agent_id}
        self.commands.put_nowait(("remove",))
        self.add(ev.Unqueued, prompt_id=prompt_id)

    def decide(
        self,
        call_id: str,
        *,
        allow: bool,
        args: JsonObject | None,
        remember: bool,
        reason: str,
        agent_id: str | None = None,
        scope: str | None = None,
    ) -> None:
        assert scope is None or remember
        self.agent_id = agent_id or "a1"
        self.commands.put_nowait(("decide", call_id, allow, args, remember, *([scope] if remember else [])))
        self.add(ev.ApprovalDecision, id=call_id, name="", allowed=allow, by="user", args=args, reason=reason)
        if not allow:
            self.result(call_id, "", "The user denied this call.", error=True)

    def ask(
        self,
        call: str,
        name: str,
        args: JsonObject,
        *touches: Effect,
        seconds: float = 272,
        reason: str = "",
        rule: str | None = None,
        for_prompt: bool = False,
    ) -> None:
        self.add(
            ev.ApprovalRequest,
            id=call,
            name=name,
            args=args,
            touches=touches,
            reason=reason,
            deadline=time.time() + seconds,
            rule=f"execute@{name}" if rule is None else rule,
            for_prompt=for_prompt,
        )

    def progress(self, call: str, name: str, text: str) -> None:
        self.add(ev.ToolProgress, id=call, name=name, text=text)

    def steered(self, prompt_id: str, text: str) -> None:
        self.add(ev.Unqueued, prompt_id=prompt_id)
        self.add(ev.Steered, prompt_id=prompt_id)
        self.add(ev.MessageAppended, id=self._seq, message=UserMessage(text))

    def summary(self, outcome: str = "done") -> Any:
        tokens, text = self._total.total_tokens, self.said
        return {
            "outcome": outcome,
            "seconds": 41.2,
            "spent": (f"{tokens} tokens", ""),
            "cost": self._cost,
            "model": "demo:scripted",
            "text": text,
        }


async def words(run: ScriptedRun, text: str, *, pause: float = 0.01) -> None:
    """Say the text word by word."""
    for word in text.split(" "):
        run.text(word + " ")
        await asyncio.sleep(pause)


async def call(run: ScriptedRun, call_id: str, name: str, args: dict[str, Any], *, pause: float = 0.005) -> None:
    """Write the arguments of a call piece by piece."""
    written = json.dumps(args)
    for at in range(0, len(written), 12):
        run.args(call_id, name, written[at : at + 12])
        await asyncio.sleep(pause)


MARKDOWN = """The dates come in **two formats**:

- `pd.to_datetime` reads 3 April;
- the other 2,229 become `NaT`.

| month | orders |
|---|---:|
| March | 9,980 |

```python
x = 1 < 2
```

Now the loader.

"""
CODE = """def parse_date(s):
    iso = pd.to_datetime(s, format="%Y-%m-%d", errors="coerce")
    return iso.fillna(pd.to_datetime(s, format="%d/%m/%y", errors="coerce"))
"""
BYTES = "ArrowInvalid: Parquet magic bytes not found in footer."


def wait_for_file(path: Path) -> None:
    """Return once there is such a file."""
    while not path.exists():
        time.sleep(0.02)


async def tour(run: ScriptedRun, thought_seen: Path) -> None:
    """Something of everything; ends while one tool runs and the arguments of another are being written.

    The run goes on thinking until the file `thought_seen` exists, so that a slow browser cannot miss it.
    """
    run.start()
    for word in "March may be short. The column is an object, so the parser may have guessed per row.".split():
        run.thinking(word + " ")
        await asyncio.sleep(0.07)
    await asyncio.to_thread(wait_for_file, thought_seen)
    await words(run, "I will look at how `orders.date` is stored before I trust the **monthly totals**.")
    await call(run, "1", "inspect_variable", {"name": "orders"})
    run.reply("", ("1", "inspect_variable", {"name": "orders"}))
    run.tool("1", "inspect_variable", {"name": "orders"})
    await asyncio.sleep(0.1)
    run.result("1", "inspect_variable", "DataFrame, 48,211 rows, 3 columns")
    run.results(("1", "inspect_variable", "DataFrame"))
    await words(run, MARKDOWN)
    read = {"code": "pd.read_parquet('export.parquet')"}
    await call(run, "2", "run_python", read)
    await call(run, "3", "bash", {"command": "pytest -q tests/"})
    run.reply("", ("2", "run_python", {}), ("3", "bash", {}))
    run.tool("2", "run_python", read)
    run.tool("3", "bash", {"command": "pytest -q tests/", "timeout": 60})
    await asyncio.sleep(0.1)
    run.result("2", "run_python", BYTES, error=True)
    await call(run, "4", "edit", {"path": "sales/load.py", "new_text": CODE})


async def stream(run: ScriptedRun, deltas: int, *, newline_every: int, burst: int, pause: float) -> None:
    """Numbered words, a pause of so many seconds after each `burst` of deltas."""
    run.start()
    for at in range(deltas):
        run.text(f"w{at:05d} " if not newline_every or (at + 1) % newline_every else f"w{at:05d}\n\n")
        if at % burst == 0:
            await asyncio.sleep(pause)


EDIT: JsonObject = {
    "path": "sales/load.py",
    "old_string": "    df = pd.read_csv(path)\n    df['date'] = pd.to_datetime(df['date'])\n    return df",
    "new_string": (
        "    df = pd.read_csv(path)\n"
        "    iso = pd.to_datetime(df['date'], format='%Y-%m-%d', errors='coerce')\n"
        "    till = pd.to_datetime(df['date'], format='%d/%m/%y', errors='coerce')\n"
        "    df['date'] = iso.fillna(till)\n    assert df['date'].notna().all()\n    return df"
    ),
}
SUITE: JsonObject = {"command": "pytest -q tests/ --maxfail=5", "timeout": 60}


def team_of(count: int) -> list[dict[str, str]]:
    """The members of a team: an orchestrator and workers."""
    return [
        {"id": f"w{n}", "name": f"worker {n}", "type": "w", "role": "worker" if n else "orchestrator", "model": "m"}
        for n in range(count)
    ]


async def write_in_lanes(run: ScriptedRun, lanes: int, seconds: float, *, ended: range) -> None:
    """The orchestrator delegates, and all write 50 words a second. Then the turns of the `ended` come to their end."""

    def add(agent: int, kind: type[ev.AgentEvent], /, **payload: Any) -> None:
        run.agent_id = f"w{agent}"
        run.add(kind, **payload)

    for agent in range(lanes):
        add(agent, ev.TurnStart, index=0, model="m")
        if agent:
            task = {"task_id": f"t{agent}", "target_id": f"w{agent}", "target_name": "", "text": "work"}
            add(0, ev.Delegated, kind="delegate", **task)
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        for agent in range(lanes):
            add(agent, ev.TextDelta, text=f"word{step} ")
        step += 1
        await asyncio.sleep(0.02)
    for agent in ended:
        add(agent, ev.TurnEnd, message=AssistantMessage((TextPart("x"),)), usage=Usage())


def ask_twice(run: ScriptedRun) -> None:
    """Two calls of one reply that need consent."""
    run.start()
    run.thinking("Edit first, so that the tests see the new loader.")
    run.text("Two steps need your consent. They are independent, so answer them in any order.")
    run.reply("", ("1", "edit", EDIT), ("2", "bash", SUITE))
    run.tool("1", "edit", EDIT)
    run.ask("1", "edit", EDIT, Effect("write", str(Path.cwd() / "sales" / "load.py")))
    run.tool("2", "bash", SUITE)
    run.ask("2", "bash", SUITE, Effect("execute", SUITE["command"]), reason="No rule allows it.", seconds=287)


async def work(run: ScriptedRun) -> None:
    """One tool runs and shows what it does, the next one is being written, prompts wait."""
    run.start()
    run.text("That explains the gap. I will make the loader read both formats and keep the tests running meanwhile.")
    run.reply("", ("1", "read", {"path": "sales/load.py"}), ("2", "bash", {"command": "pytest -q tests/"}))
    run.tool("1", "read", {"path": "sales/load.py"})
    run.tool("2", "bash", {"command": "pytest -q tests/"})
    run.result("1", "read", "def load(path): ...")
    for at in range(38):
        run.progress("2", "bash", f"collected tests/test_{at:02d}.py\n")
    run.progress("2", "bash", "\x1b[32mtests/test_clean.py ........................            [ 51%]\x1b[0m\n")
    run.progress("2", "bash", "tests/test_features.py ..............                   [ 79%]\ntests/test_load.py ....")
    run.queue("Then plot the corrected months next to the old ones")
    await asyncio.sleep(0.5)
