"""Lookups that tasks share while nothing can have changed between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from planck_nb.base.event_loops import SharedLookup
from planck_nb.resources.skill_pool import SkillPool


async def test_tasks_that_begin_together_share_one_lookup() -> None:
    shared, looked_up = SharedLookup[int](), list[int]()

    def look_up() -> int:
        looked_up.append(len(looked_up))
        return looked_up[-1]

    async def ask() -> int:
        return shared(look_up)

    assert await asyncio.gather(*(ask() for _ in range(100))) == [0] * 100
    assert await asyncio.gather(*(ask() for _ in range(100))) == [1] * 100
    assert await asyncio.to_thread(shared, look_up) == 2
    assert await asyncio.to_thread(shared, look_up) == 3


async def test_who_begins_after_a_change_sees_it() -> None:
    shared, value = SharedLookup[int](), [0]

    async def ask() -> int:
        return shared(lambda: value[0])

    for number in range(1, 4):
        value[0] = number
        asked = asyncio.create_task(ask())
        assert await asked == number


async def test_a_new_skill_is_in_the_next_prompt(tmp_path: Path) -> None:
    pool = SkillPool([tmp_path])

    async def section() -> str:
        return pool.section()

    assert await asyncio.create_task(section()) == ""
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "SKILL.md").write_text("---\nname: plots\ndescription: Draw plots.\n---\n")
    assert "plots" in await asyncio.create_task(section())
