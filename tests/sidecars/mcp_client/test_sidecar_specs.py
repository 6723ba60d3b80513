"""Specs of sidecars and the files that have them; the cutting of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.mcp_client.mcp_servers import read_mcp_servers
from planck_nb.sidecars.mcp_client.offers.result_check import ResultCheck, without_slow_patterns
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.lines import LineCutter, TooLongLine
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines

HERE = Path("/project/.mcp.json")


def one(entry: Any, name: str = "files", **environment: str) -> SidecarSpec:
    report = read_mcp_servers({"mcpServers": {name: entry}}, source=HERE, environment=environment)
    assert not report.problems
    (spec,) = report.specs
    return spec


def problem(entry: Any, name: str = "files", **environment: str) -> str:
    report = read_mcp_servers({"mcpServers": {name: entry}}, source=HERE, environment=environment)
    assert not report.specs
    (sentence,) = report.problems
    return sentence


def test_commands_and_addresses_are_read() -> None:
    spec = one({"command": "npx", "args": ["-y", "server", 3], "env": {"A": "1", "B": True}, "cwd": "sub"})
    assert (spec.command, spec.args, spec.env) == ("npx", ("-y", "server", "3"), {"A": "1", "B": "true"})
    assert (spec.cwd, spec.source, spec.transport) == (Path("sub"), HERE, "stdio")
    spec = one({"type": "http", "url": "https://host/mcp", "headers": {"X": "1"}, "token_env": "T"}, T="secret")
    assert (spec.url, spec.headers, spec.token, spec.token_variable) == ("https://host/mcp", {"X": "1"}, "secret", "T")
    assert (spec.sampling, spec.roots) == (False, False)
    assert one({"command": "x", "sampling": True}).sampling
    assert not one({"command": "x", "sampling": "yes"}).sampling


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "1"),
        ("x${A}y${A}", "x1y1"),
        ("${env:A}", "1"),
        ("${B:-two}", "two"),
        ("${B:-}", ""),
        ("${A:-two}", "1"),
        ("${workspaceFolder}/x", "/project/x"),
        ("${userHome}", "/home/me"),
        ("$A", "1"),
        ("$A$A", "11"),
        ("mysql://$A@localhost/$A", "mysql://1@localhost/1"),
        ("mysql://$A@host:3306/db", "mysql://1@host:3306/db"),
        ("$HOME/.cache", "/home/me/.cache"),
        ("Bearer $A", "Bearer 1"),
        ("$$A", "$$A"),
        ("pa$word and $5", "pa$word and $5"),
        ("${C}", "$A"),
        ("$a", "$a"),
        ("{A}", "{A}"),
    ],
)
def test_variables_are_expanded(text: str, expanded: str) -> None:
    spec = one({"command": "c", "args": [text], "env": {"V": text}}, A="1", C="$A", HOME="/home/me")
    assert (spec.args, spec.env["V"]) == ((expanded,), expanded)


def test_a_bare_variable_which_is_not_set_is_named() -> None:
    entry = {"command": "c", "args": ["$B_1", "$B_1"], "env": {"DB": "x://$USER:pa$WORD@$B_1"}}
    report = read_mcp_servers({"mcpServers": {"files": entry}}, source=HERE, environment={"USER": "ada"})
    (spec,) = report.specs
    assert (spec.args, spec.env) == (("$B_1", "$B_1"), {"DB": "x://ada:pa$WORD@$B_1"})
    start = f"The sidecar files in {HERE}"
    assert report.problems == (
        f"{start} leaves $B_1 as it is, because this environment variable is not set; set it, or write ${{B_1:-…}}.",
        f"{start} gets DB with the name of an environment variable which is not set; set it, or write ${{NAME:-…}}.",
    )


@pytest.mark.parametrize("shell", ["sh", "/bin/bash", "C:\\Windows\\System32\\cmd.exe"])
def test_a_shell_replaces_the_variables_in_its_arguments_itself(shell: str) -> None:
    script = "for A in 1 2; do echo $A $B ${A}; done"
    spec = one({"command": shell, "args": ["-c", script], "env": {"V": "$A"}}, A="3")
    assert (spec.args[1], spec.env["V"]) == (script.replace("${A}", "3"), "3")


def test_the_folder_of_an_editors_file_is_that_of_the_project() -> None:
    data = {"servers": {"a": {"command": "${workspaceFolder}/run"}}}
    report = read_mcp_servers(data, source=Path("/project/.vscode/mcp.json"), environment={})
    assert report.specs[0].command == "/project/run"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"command": "${MISSING}"}, "needs the environment variable MISSING, which is not set"),
        ({"command": "c", "env": {"K": "${input:key}"}}, "asks for ${input:key}, which only its editor can ask for"),
        ({"command": "c", "args": ["${a b}"]}, "contains ${a b}, which is not known"),
        ({"url": "http://h/", "token_env": "T"}, "needs a token in the environment variable T; set it"),
        ({}, "has neither a command nor an address"),
        ({"command": "c", "url": "http://h/"}, "has both a command and an address"),
        ({"command": 3}, "has a `command` that is not a string"),
        ({"command": "c", "args": "a b"}, "has `args` that are not a list"),
        ({"command": "c", "args": [{}]}, "has an argument that is not a string"),
        ({"command": "c", "env": ["A=1"]}, "has an `env` that is not an object"),
        ({"command": "c", "env": {"A": None}}, "has a value for A in `env` that is not a string"),
        ({"command": "c", "env": {"A=B": "1"}}, "sets a variable whose name is empty or contains '='"),
        ({"command": "c\0"}, "contains a null character"),
        ({"command": "c", "envFile": ".env"}, "uses `envFile`, which is not read"),
        ({"type": "sse", "url": "http://h/"}, "uses the transport SSE"),
        ({"transport": {"type": "http", "headers": {"A": "x"}}}, "has a `transport` that is not a string"),
        ({"type": "carrier-pigeon", "url": "http://h/"}, "has the unknown type 'carrier-pigeon'"),
        ({"url": "file:///etc/passwd"}, "is not an address of HTTP"),
        ({"url": "http://h:x/"}, "cannot be read; write it as"),
        ({"url": "http://me:pw@h/"}, "contains a user name or a password"),
        ({"url": "http://h/", "headers": {"A": "x\r\nB: y"}}, "contain line breaks"),
        ("npx server", "is not an object"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_sidecar(entry: Any, sentence: str) -> None:
    found = problem(entry)
    assert sentence in found
    assert "files" in found
    assert "\n" not in found


def test_a_secret_is_in_no_sentence_and_in_no_repr() -> None:
    spec = one({"command": "c", "env": {"KEY": "hunter2-hunter2"}, "args": ["${A}"]}, A="1")
    assert "hunter2" not in repr(spec)
    assert spec.secrets() == {"hunter2-hunter2": "the value of KEY of the sidecar files"}
    web = one(
        {"url": "http://h/", "headers": {"Authorization": "Bearer abcdefgh1234"}, "token_env": "T"}, T="tok-9876-xyz"
    )
    assert set(web.secrets()) >= {"abcdefgh1234", "tok-9876-xyz"}
    assert "tok-9876" not in repr(web)
    remote = one({"url": "https://h/mcp?page=1&vendorApiKey=${VENDOR}"}, VENDOR="k3yOfTheAddress0451")
    assert list(remote.secrets()) == ["k3yOfTheAddress0451"]
    path = SidecarSpec("path", url=f"https://mcp.example/s/{'9f' * 10}/weather-server-v2/mcp")
    assert list(path.secrets()) == ["9f" * 10]
    assert "0451" not in repr(remote)
    ordinary = one({"command": "c", "env": {"NODE_ENV": "production", "PORT": "8080"}})
    assert ordinary.secrets() == {}  # else the word would be replaced in every text


@pytest.mark.parametrize(
    ("key", "name"),
    [("a b", "a-b"), ("@scope/server-files", "server-files"), ("dötted.näme", "d-tted.n-me"), ("x" * 60, "x" * 40)],
)
def test_names_are_made_usable(key: str, name: str) -> None:
    assert one({"command": "c"}, name=key).name == name


def test_a_file_of_another_kind_is_a_problem() -> None:
    others: tuple[object, ...] = ([], None, {"mcpServers": []}, {"other": {}}, 7)
    for data in others:
        (sentence,) = read_mcp_servers(data, source=HERE).problems
        assert sentence == '/project/.mcp.json has no object "mcpServers"; list the sidecars in one, by name.'


def test_one_bad_entry_leaves_the_others() -> None:
    servers = {
        "good": {"command": "c"},
        "bad": {},
        "off": {"command": "c", "disabled": True},
        "go/good": {"command": "d"},
    }
    report = read_mcp_servers({"mcpServers": servers}, source=HERE)
    assert [spec.name for spec in report.specs] == ["good"]
    assert report.disabled == ("off",)
    assert len(report.problems) == 2
    assert "is defined twice" in report.problems[1]


@pytest.mark.parametrize(
    ("value", "is_said"),
    [("$UNSET_KEY", True), ("Bearer $UNSET_KEY", True), ("x://$A@h", True), ("pa$WORD", False), ("$WORDs", False)],
)
def test_a_password_with_a_dollar_sign_is_no_variable(value: str, is_said: bool) -> None:
    report = read_mcp_servers({"mcpServers": {"one": {"command": "c", "env": {"KEY": value}}}})
    assert [spec.env["KEY"] for spec in report.specs] == [value]
    assert [problem.startswith("The sidecar one gets KEY with the name") for problem in report.problems] == [
        True
    ] * is_said


def test_a_spec_checks_its_name() -> None:
    for name in ("", "-x", "a b", "x" * 41, "a\n"):
        with pytest.raises(ConfigError, match="cannot be the name of a sidecar"):
            SidecarSpec(name, command="c")


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_lines_are_the_same_however_the_bytes_are_cut(pieces: list[bytes], limit: int) -> None:
    data = b"".join(pieces)
    cutter = LineCutter(limit)
    found = [line for piece in pieces for line in cutter.feed(piece)]
    expected = data.split(b"\n")[:-1]
    assert [not isinstance(line, TooLongLine) for line in found] == [len(line) <= limit for line in expected]
    for line, whole in zip(found, expected, strict=True):
        if isinstance(line, TooLongLine):
            assert whole.startswith(line.head)
            assert whole.endswith(line.tail)
        else:
            assert line == whole


def test_a_long_line_takes_little_memory() -> None:
    cutter = LineCutter(1_000)
    for _ in range(10_000):
        assert not list(cutter.feed(b"x" * 1_000))
    assert len(cutter.rest()) <= 4_000
    (line,) = cutter.feed(b"end\n")
    assert isinstance(line, TooLongLine)
    assert line.tail.endswith(b"end")


def test_logs_have_no_escape_codes_and_progress_bars_end_with_their_last_state() -> None:
    log = LogLines(3)
    log.feed(b"one\ntwo\n\x1b[1;31mred\x1b[0m\x1b]8;;http://x\x07link\x1b]8;;\x07\r\n 1%\r 50%\r100%\npart")
    log.feed(b"ly \xff\xe2\x80\xae")
    assert log.lines() == ["two", "redlink", "100%", "partly \ufffd⟨U+202E⟩"]
    assert log.lines(1) == ["partly \ufffd⟨U+202E⟩"]


def test_patterns_that_could_block_the_kernel_are_left_out_of_schemas() -> None:
    evil, fine = {"type": "string", "pattern": "^(a+)+$"}, {"type": "string", "pattern": "^[a-z]+$"}
    schema = {
        "properties": {"pattern": evil, "b": fine, "c": {"items": [evil]}},
        "patternProperties": {"^(x+)*$": fine, "^y": fine},
    }
    assert without_slow_patterns(schema) == {
        "properties": {"pattern": {"type": "string"}, "b": fine, "c": {"items": [{"type": "string"}]}},
        "patternProperties": {"^y": fine},
    }


async def test_results_are_checked_whatever_their_size() -> None:
    check = ResultCheck({"type": "array", "items": {"type": "string", "pattern": "^(a+)+$"}})
    assert await check.problem(["a" * 40 + "!"]) == ""
    assert await check.problem([1]) == "0: 1 is not of type 'string'"
    assert await check.problem(["a"] * 5_000) == ""
    assert (await check.problem([*["a"] * 5_000, 1])).startswith("5000: 1 is not")
    assert "not valid" in await ResultCheck({"type": "nonsense"}).problem({})
    assert "refers to /nowhere" in await ResultCheck({"$ref": "#/nowhere"}).problem({})


def test_values_of_variables_in_any_place_are_secrets_of_the_sidecar() -> None:
    environment = {"ONE": "value-number-one", "TWO": "value-number-two", "HOME": "/home/me", "TOOLS": "/opt/tools/bin"}
    entry = {"command": "${TOOLS}/run", "args": ["--key=${ONE}", "${HOME}"], "cwd": "${TWO:-none}"}
    [spec] = read_mcp_servers({"mcpServers": {"docs": entry}}, environment=environment).specs
    assert set(spec.secrets()) == {"value-number-one", "value-number-two"}
    assert "value-number-one" not in repr(spec.secrets().values())
