"""■ at random moments, while tools block, await, print and end: the kernel lives, and the next cell works."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from support.kernel import running_kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.soak]

MOMENTS = 200 if os.environ.get("PLANCK_NB_SOAK") else 12

SETUP = """
import asyncio, random, time
from planck_nb import Agent, tool
from planck_nb.testing import Call, Reply, scripted_model

async def computes() -> str:
    "Compute."
    end = time.monotonic() + random.random()
    while time.monotonic() < end:
        pass
    return "c"

async def pauses() -> str:
    "Pause."
    time.sleep(3 * random.random())
    return "p"

async def awaits() -> str:
    "Await."
    for _ in range(20):
        await asyncio.sleep(random.random() / 20)
        time.sleep(random.random() / 50)
    return "a"

async def prints() -> str:
    "Print."
    for number in range(2_000):
        print(number)
        if number % 50 == 0:
            await asyncio.sleep(0)
    return "x"

async def gathers() -> str:
    "Gather."
    async def part():
        await asyncio.sleep(0)
        time.sleep(random.random())
    await asyncio.gather(part(), part(), asyncio.to_thread(time.sleep, 0.1))
    return "g"

def sleeps() -> str:
    "Sleep in a thread."
    time.sleep(random.random())
    return "s"

TOOLS = [computes, pauses, awaits, prints, gathers, sleeps]

def agent():
    script = [Reply(calls=[Call(each.__name__, {}) for each in random.sample(TOOLS, 3)]) for _ in range(3)]
    return Agent(model=scripted_model([*script, "end"]), tools=TOOLS)
"""

CELLS = [
    "await agent().prompt('go')",
    "async for event in agent().prompt('go'): pass",
    "await asyncio.gather(agent().prompt('one'), agent().prompt('two'))",
    "run = agent().prompt('go')",
    "%%planck --new --tools computes,awaits,pauses --allow computes,awaits,pauses\nUse computes, awaits and pauses",
    '%%planck --new --tools kernel --allow run_python\nrun_python "import time; time.sleep(0.7); print(1)"',
    "def f():\n    get_ipython().run_line_magic('planck', '--new --tools pauses --allow pauses Use pauses')\nf()",
    "for _ in range(50):\n    await asyncio.sleep(0.01); time.sleep(0.01)",
    "time.sleep(1)",
]


@pytest.mark.timeout(900)
def test_the_kernel_lives(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    with running_kernel(tmp_path, PLANCK_NB_SESSIONS_DIR=str(tmp_path / "sessions"), PLANCK_NB_DEMO_PACE="0") as kernel:
        assert kernel.run(f"%load_ext planck_nb\n%planck model demo\n{SETUP}").status == "ok"
        for number in range(MOMENTS):
            code = chance.choice(CELLS)
            said = f"seed {seed}, moment {number}: {code}"
            sent = kernel.start(code)
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                time.sleep(chance.random() * chance.choice((0.1, 1, 2)))
                kernel.interrupt()
            ended = kernel.finish(sent, timeout=30)
            assert ended.seconds < 30, said
            assert kernel.manager.is_alive(), said
            after = kernel.run("1 + 1", timeout=30)
            assert after.plain == "2", said
