"""Sets of changes to the cells of a notebook: random ones, and what each does, in the plainest way."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from planck_nb.base.json_types import JsonObject as Cell


def set_applied(cells: list[Cell], operations: list[Cell]) -> list[Cell]:
    """What a notebook is after a set of changes that nothing is in the way of."""
    cells = [dict(each) for each in cells]
    for operation in operations:
        if operation["kind"] == "insert":
            moved = dict(operation["cell"])
        else:
            [moved] = [each for each in cells if each["id"] == operation["id"]]
        if operation["kind"] == "change":
            moved["source"] = operation["source"]
            continue
        cells = [each for each in cells if each is not moved]
        if operation["kind"] != "delete":
            place = next(at for at, each in enumerate(cells, 1) if each["id"] == operation["after"][0])
            cells.insert(place, moved)
    return cells


def random_set(cells: list[Cell], random: Random) -> list[Cell]:
    """One to twenty operations that follow one another."""
    operations: list[Cell] = []
    for at in range(random.randint(1, 20)):
        present = set_applied(cells, operations)
        kind = random.choice(["insert", "change", "move", "delete"])
        chosen, other = random.sample(present, 2)
        operation: Cell = {"kind": kind, "id": chosen["id"], "before": chosen["source"]}
        if kind == "insert":
            operation = {"kind": kind, "cell": cell(f"new{at}", f"new {at}"), "after": [chosen["id"]]}
        elif kind == "change":
            operation["source"] = f"{chosen['source']} changed {at}"
        elif kind == "move":
            operation["after"] = [other["id"]]
        operations.append(operation)
    return operations


def cell(name: str, source: str, outputs: Sequence[object] = ()) -> Cell:
    return {
        "id": name,
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": list(outputs),
        "execution_count": len(outputs) or None,
    }
