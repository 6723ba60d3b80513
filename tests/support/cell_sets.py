"""Sets of changes to the cells of a notebook: random ones, and what each does, in the plainest way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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


def subjects(operations: Iterable[Cell]) -> set[str]:
    """The cells which a set inserts, changes, moves or deletes."""
    return {operation["cell"]["id"] if operation["kind"] == "insert" else operation["id"] for operation in operations}


def random_set(cells: list[Cell], random: Random, *, spared: Collection[str] = (), name: str = "new") -> list[Cell]:
    """One to twenty operations that follow one another.

    Args:
        cells: The notebook.
        random: The randomness.
        spared: Cells to leave as they are.
        name: The beginning of new cells' ids.
    """
    operations: list[Cell] = []
    for at in range(random.randint(1, 20)):
        present = set_applied(cells, operations)
        kind = random.choice(["insert", "change", "move", "delete"])
        choices = [each for each in present if each["id"] not in spared]
        if not choices or len(present) < 2:
            break
        chosen = random.choice(choices)
        other = random.choice([each for each in present if each is not chosen])
        operation: Cell = {"kind": kind, "id": chosen["id"], "before": chosen["source"]}
        if kind == "insert":
            operation = {"kind": kind, "cell": cell(f"{name}{at}", f"new {at}"), "after": [chosen["id"]]}
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
