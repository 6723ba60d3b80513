"""TOOL.json: what is loaded, what is refused, and that no argument is ever run."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agents import plain

from planck_nb import Agent, BuiltinTools, Effect, ExternalTool, ToolError
from planck_nb.base.errors import ConfigError
from planck_nb.testing import scripted_model
from planck_nb.tools.template import Template

PARAMETERS = {"type": "object", "properties": {"x": {}}}
ATTACKS = [
    "; touch PWNED", "$(touch PWNED)", "`touch PWNED`", "\ntouch PWNED\n", "' ; touch PWNED ; '", '" ; touch PWNED ; "',
    "| touch PWNED", "&& touch PWNED", "> PWNED", "\\", "\\'; touch PWNED #", '\\"; touch PWNED #', "$HOME", "${HOME}",
    "*", "~", "!!", "{{y}}", "", " ", "-n\t", "é🎉", "$((1+1))", "#", "%s", "a'b\"c`d$e\\f\r\n",
]  # fmt: skip
SHOW = "python3 -c 'import sys; print(ascii(sys.argv[1:]))' "


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def described(folder: Path, **changes: object) -> Path:
    """A TOOL.json in `folder`."""
    spec = {"name": "t", "description": "Does.", "command": "echo {{x}}", "parameters": PARAMETERS, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "TOOL.json"
    path.write_text(json.dumps({key: value for key, value in spec.items() if value is not ...}))
    return path


@pytest.mark.process
@pytest.mark.parametrize("value", ATTACKS)
async def test_no_argument_is_ever_run(tmp_path: Path, value: str) -> None:
    command = SHOW + "{{x}} '<{{x}}>' \"<{{x}}>\" pre{{x}}post --x={{x}} '<'\"{{x}}\"'>'{{x}}; echo {{x}} >/dev/null"
    tool = ExternalTool.from_file(described(tmp_path / "t", command=command), cwd=tmp_path)
    expected = [value, f"<{value}>", f"<{value}>", f"pre{value}post", f"--x={value}", f"<{value}>{value}"]
    assert (await tool.run({"x": value, "y": "expanded twice"})).text == ascii(expected) + "\n"
    assert names_in(tmp_path) == ["t"]


@pytest.mark.process
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.sampled_from("ab '\"`$(){};&|\\\n\t*~#=!<>é"), max_size=12))
async def test_any_text_arrives_as_it_is(tmp_path: Path, value: str) -> None:
    tool = ExternalTool.from_file(
        described(tmp_path / "t", command="printf '<%s>' {{x}} '{{x}}' \"{{x}}\""), cwd=tmp_path
    )
    assert (await tool.run({"x": value})).text == f"<{value}>" * 3


def test_what_is_touched_is_the_command_as_it_will_run(tmp_path: Path) -> None:
    tool = ExternalTool.from_file(described(tmp_path, command="wc -l {{x}}"))
    assert plain(tool.touched({"x": "a b; rm c"})) == [Effect("execute", "wc -l 'a b; rm c'")]
    assert plain(tool.touched({"x": "a", "cwd": "/"})) == [Effect("execute", "wc -l 'a'", "/")]
    assert tool.touched({"x": "\0"}) == (Effect("execute"),)


@pytest.mark.process
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        (["a b", 1], '["a b", 1]'),
        ({"k": "é"}, '{"k": "é"}'),
        (["$(x)"], '["$(x)"]'),
    ],
)
async def test_other_values_are_json(tmp_path: Path, value: object, text: str) -> None:
    tool = ExternalTool.from_file(described(tmp_path, command="printf %s {{x}}"))
    assert (await tool.run({"x": value})).text == text


@pytest.mark.process
async def test_a_placeholder_without_an_argument_becomes_empty(tmp_path: Path) -> None:
    tool = ExternalTool.from_file(described(tmp_path, command=SHOW + "a {{missing}} b{{x}}c '{{x}}' {{ x }} {{a-b}}"))
    assert (await tool.run({})).text == "['a', 'bc', '', '{{', 'x', '}}', '{{a-b}}']\n"
    assert await tool.run({"x": None}) == await tool.run({})
    with pytest.raises(ToolError, match="x contains a NUL character"):
        await tool.run({"x": "\0"})


@pytest.mark.parametrize(
    "command",
    [
        'sh -c "echo {{x}}"', "bash -lc 'echo {{x}}'", "/bin/sh -c {{x}}",
        "env A=1 timeout 5 bash -o pipefail -c '{{x}}'", "sh 2>&1 -c '{{x}}'", "s\\h -c '{{x}}'", "'sh' -c '{{x}}'",
        "sh -c \\\n '{{x}}'", "true; sh -c '{{x}}'", "find . -exec sh -c 'echo {{x}}' \\;", "$SHELL -c {{x}}",
        "eval {{x}}", "ssh host 'ls {{x}}'", "su me -c 'ls {{x}}'", "python3 -c 'print({{x}})'", "python3 -c{{x}}",
        "perl -ne '{{x}}'", "node --eval={{x}}", "watch 'ls {{x}}'", "echo {{x}} | sh", "(echo {{x}}) | bash",
        "echo {{x}} |\nsh -s a", "echo {{x}} | python3 -", "\\{{x}}", "${{x}}", '"${{x}}"', '"\\{{x}}"', "$({{x}})",
        '"$(echo {{x}})"', "`{{x}}`", "`ls \\`{{x}}\\``", "echo ${A:-{{x}}}", "cat <<END\n{{x}}\nEND",
        "cat <<<{{x}}", "ls # {{x}}", "ls # it's\necho '{{x}}'", "echo $'{{x}}'", 'echo $"{{x}}"',
        "awk '/{{x}}/' f", "ls | awk -F , -v y={{x}} {{x}}", "/usr/bin/gawk '{{x}}' f", "R -e 'f({{x}})'",
        "julia -e {{x}}", "pwsh -Command {{x}}", "bash -cx 'echo {{x}}'", "perl -0777pe '{{x}}'", "nodejs -e {{x}}",
        "lua5.4 -e {{x}}", "php8.2 -r {{x}}", "ipython3 -c {{x}}", "rbash -c {{x}}", "alias a='ls {{x}}'; a",
        "echo {{x}} |& bash", "echo {{x}} | xargs -I{} sh -c 'ls {}'", "echo {{x}} | xargs -I % bash -c 'ls %'",
        "echo {{x}} | xargs sh -c", "echo {{x}} | xargs ssh host ls", "declare -i a={{x}}", "while read {{x}}",
        "echo $((1 + {{x}}))", "((  {{x}} ))", "[[ {{x}} -eq 1 ]]", 'echo "$(case a in a) echo;; esac) {{x}}"',
    ],
)  # fmt: skip
def test_where_no_value_is_safe_the_file_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(ConfigError, match=r"TOOL\.json at .*: (\{\{x\}\} is |The command pipes)"):
        ExternalTool.from_file(described(tmp_path, command=command))


@pytest.mark.parametrize(
    "command",
    [
        "V={{x}}; eval $V",
        'V={{x}}; eval "$V"',
        'V={{x}} && sh -c "$V"',
        "export V={{x}}; bash -c $V",
        "V='{{x}}'; W=$V; eval $W",
        'V="a {{x}}"; W="${V}"; eval "ls $W"',
        "for f in {{x}}; do eval $f; done",
        'set -- {{x}}; eval "$1"',
        'set -- {{x}}; sh -c "$@"',
        "echo {{x}} | while read V; do eval $V; done",
        "echo {{x}} > f; sh f",
        "printf %s {{x}} > ./run.sh && . ./run.sh",
        "echo {{x}} | tee f; source f",
        "echo {{x}} >> f; bash < f",
        "echo {{x}} > f; chmod +x f; ./f",
        'V={{x}}; python -c "$V"',
        'V={{x}}; python3 -c "print($V)"',
        "V={{x}} sh -c 'eval \"$V\"'",
        "export V={{x}}; sh -c 'eval $V'",
        "export V={{x}}; python -c 'import os; exec(os.environ[\"V\"])'",
        "sh -c 'eval \"$1\"' _ {{x}}",
        "find . -name 'eval $1' -exec bash -c 'eval $1' _ {{x}} \\;",
        "bash -c '$1' _ {{x}}",
        "sh -c 'sh -c \"$1\"' _ {{x}}",
        "python3 -c 'import sys; exec(sys.argv[1])' {{x}}",
        "python3 -c 'import os, sys; os.system(sys.argv[1])' {{x}}",
        "V={{x}}; echo $((V + 1))",
        "V={{x}}; echo $(($V + 1))",
        "V={{x}}; ((V++))",
        "V={{x}}; echo ${V@P}",
        "V={{x}}; echo ${!V}",
        "V={{x}}; $V",
        'V={{x}}; "$V" a',
        'V={{x}}; trap "$V" EXIT',
        'V={{x}}; alias a="$V"; a',
        "V={{x}}; echo ls $V | sh",
        "V={{x}}; ssh host $V",
        "V={{x}}; [[ $V -eq 1 ]]",
        "V={{x}}; let a=$V",
        "printf -v V %s {{x}}; eval $V",
        'V={{x}}; find . -exec sh -c "$V" \\;',
        "V={{x}}; W=$(echo $V); eval $W",
        'V={{x}}; W="$(echo "$V")"; eval "$W"',
        'V={{x}}; awk "$V" f',
        'V={{x}}; xargs -a f sh -c "$V"',
        'V={{x}}; su me -c "$V"',
        "readonly V={{x}}; eval $V",
        "declare V={{x}}; eval $V",
        "V+={{x}}; eval $V",
        "V[0]={{x}}; eval $V",
        "V={{x}}\neval $V",
        "V={{x}}; eval ${V:-a}",
        'V={{x}}; perl -e "$V"',
        'V={{x}}; node -e "$V"',
        "(V={{x}}; eval $V)",
        "{ V={{x}}; eval $V; }",
        "if V={{x}}; then eval $V; fi",
        "sh -c 'eval \"ls $1\"' _ {{x}}",
        'V={{x}}; sh <<< a; sh -ec "$V"',
        "V={{x}}; exec $V",
        "V={{x}}; if true; then sudo $V; fi",
    ],
)
def test_a_value_that_is_run_later_is_refused(command: str) -> None:
    with pytest.raises(ConfigError, match=r"^(\{\{x\}\} is |The command pipes)"):
        Template.parse(command)


@pytest.mark.parametrize(
    "command",
    [
        'V={{x}}; echo "$V"',
        'V={{x}}; ls -- "$V" | wc -l',
        "n={{x}}; for i in 1 2; do echo $i $n; done",
        'for f in {{x}}; do wc -l "$f"; done',
        "V={{x}} sh -c 'echo \"$V\"'",
        "V={{x}} sh -c 'wc -l < \"$V\"'",
        "V={{x}} python3 -c 'import os; print(os.environ[\"V\"])'",
        "echo {{x}} > data; python3 script.py data",
        "echo {{x}} > data; cat data",
        "sh -c 'wc -l < \"$1\"' _ {{path}}",
        "python3 -c 'import sys; print(sys.argv[1])' {{x}}",
        "V={{x}}; W=1; eval echo $W",
        'V={{x}}; test -n "$V" && echo yes',
        "A=1 ./run.sh {{x}}",
        'V={{x}}; python3 script.py "$V"',
        'set -- {{x}}; echo "$1"',
        'echo {{x}} | while read V; do echo "$V"; done',
        "V={{x}}; echo ${V:-a} ${#V}",
        "V={{x}}; echo $((1 + 2))",
        "cd {{x}} && make > log 2>&1; tail log",
        "sh -c 'cd \"$1\" && make' _ {{x}}",
        'sh -c \'for f in "$@"; do echo "$f"; done\' _ {{x}}',
        "bash -c 'exec make \"$1\"' _ {{x}}",
        "sh -c 'exec < \"$1\"; cat' _ {{x}}",
        "sh -c 'sh tools/x.sh \"$1\"' _ {{x}}",
        'V={{x}}; bash tools/x.sh "$V"',
        "python3 -c 'import subprocess, sys; subprocess.run([\"ls\", sys.argv[1]])' {{x}}",
    ],
)
def test_a_value_that_is_only_used_later_is_not_refused(command: str) -> None:
    assert Template.parse(command).fill({"x": "v", "path": "w"})


@pytest.mark.parametrize(
    "command",
    [
        "radon cc {{path}} -s", "sh -c 'echo \"$1\"' _ {{x}}", "python3 script.py --path={{x}} -c {{x}}",
        "./run.sh {{x}}", "bash tools/x.sh {{x}}", "echo {{x}} | python3 count.py",
        "ruff check {{x}} 2>&1 | head -20", "grep -c {{x}} {{y}}",
        'n=$(git ls-files | wc -l); echo $n {{x}} "$HOME" ${A} `date`', "cd \"$(pwd)\" && ls '{{x}}' > out",
        "awk -F {{x}} -v y={{x}} '{print y}' {{x}}", "awk -f program.awk {{x}}",
        "cost: $ {{x}}", "python3 -m pytest {{x}}", "echo a#{{x}}", "echo {{x}} | xargs sh -c 'ls \"$1\"' _",
        "echo {{x}} | xargs -I{} mv {} {{y}}", "git read-tree {{x}}", "git config --unset {{x}}",
    ],
)  # fmt: skip
def test_ordinary_commands_are_not_refused(command: str) -> None:
    assert Template.parse(command).fill({"x": "v", "y": "w"})


@pytest.mark.process
async def test_working_directory_and_timeout_are_always_taken(tmp_path: Path) -> None:
    schema = {**PARAMETERS, "additionalProperties": False}
    tool = ExternalTool.from_file(described(tmp_path / "t", command="echo {{x}}; pwd; sleep 60", parameters=schema))
    assert list(tool.parameters["properties"]) == ["x", "cwd", "timeout"]
    with pytest.raises(ToolError, match=f"timed out after 200ms\nhi\n{tmp_path}\n"):
        await tool.run({"x": "hi", "cwd": str(tmp_path), "timeout": 200})
    with pytest.raises(ToolError, match="Invalid arguments for t"):
        await tool.run({"z": 1})


@pytest.mark.process
async def test_it_runs_like_bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hidden")
    tool = ExternalTool.from_file(described(tmp_path, command="echo out {{x}} $MY_TOKEN; echo err >&2; exit 1"))
    with pytest.raises(ToolError, match=r"^Process exited with status 1\nout v\n\nSTDERR:\nerr\n$"):
        await tool.run({"x": "v"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "invalid JSON in"),
        ("[]", "must hold a JSON object"),
        ("3", "must hold a JSON object"),
        ("[" * 100_000, "invalid JSON in"),
        ('{"name": "t", "description": "d"}', "missing required fields: command, parameters"),
        ('{"name": 1, "description": "d", "command": "c", "parameters": {}}', "name must be a string"),
        ('{"name": "a b", "description": "d", "command": "c", "parameters": {}}', "name must be up to 64"),
        ('{"name": "t", "description": "d", "command": ["c"], "parameters": {}}', "command must be a string"),
        ('{"name": "t", "description": "d", "command": "c", "parameters": []}', "parameters must be a JSON Schema"),
        ('{"name": "t", "description": "d", "command": "c", "parameters": {"properties": []}}', "properties must be"),
        ('{"name": "t", "description": "d", "command": "c", "parameters": {"required": 1}}', "is not a JSON Schema"),
        ('{"name": "t", "description": "d", "command": "echo \'", "parameters": {}}', "never closed"),
        ("\udcff", "cannot read"),
    ],
)
def test_every_file_skipped_is_named_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    described(tmp_path / "a" / "one", name="one")
    described(tmp_path / "b" / "two", name="two")
    bad = tmp_path / "a" / "bad"
    bad.mkdir()
    (bad / "TOOL.json").write_text(text, errors="surrogateescape")
    (tmp_path / "a" / "notes").mkdir()
    (tmp_path / "a" / "file").touch()
    report = ExternalTool.load_all([tmp_path / "b", tmp_path / "missing", tmp_path / "a", tmp_path / "a" / "file"])
    assert [tool.name for tool in report.tools] == ["two", "one"]
    (skipped, folder) = report.skipped
    assert skipped.path == bad / "TOOL.json"
    assert reason in skipped.reason
    assert folder.path == tmp_path / "a" / "file"
    assert "cannot list" in folder.reason


def test_a_report_is_a_sequence_of_its_tools(tmp_path: Path) -> None:
    described(tmp_path / "one", name="one")
    described(tmp_path / "two", name="two")
    report = ExternalTool.load_all([tmp_path])
    assert [tool.name for tool in report] == ["one", "two"]
    assert (len(report), report[1].name, [tool.name for tool in report[:1]]) == (2, "two", ["one"])
    builtin = BuiltinTools.all()
    for together in ([*builtin, *report], builtin + report, [*report.tools, *builtin], report + builtin):
        agent = Agent(model=scripted_model(["-"]), tools=together)
        assert {tool.name for tool in agent.tools} == {"one", "two", "read", "write", "edit", "bash"}
    assert [tool.name for tool in builtin + ExternalTool.load_all([tmp_path / "none"])] == [t.name for t in builtin]
    assert not ExternalTool.load_all([])


def test_a_file_is_described_as_it_is_now(tmp_path: Path) -> None:
    for count in (1, 2):
        described(tmp_path / "t", parameters={"properties": {f"x{number}": {} for number in range(count)}})
        tool = ExternalTool.load_all([tmp_path]).tools[0]
        assert list(tool.parameters["properties"])[:-2] == [f"x{number}" for number in range(count)]
    described(tmp_path / "t", parameters={"properties": {"x": {"type": 3}}})
    for _again in range(2):
        assert "not a JSON Schema" in ExternalTool.load_all([tmp_path]).skipped[0].reason


def test_a_schema_elsewhere_is_never_fetched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        tool = ExternalTool.from_file(described(tmp_path, parameters={"properties": {"x": {"$ref": url}}}))
        with pytest.raises(ToolError, match=f"Its schema refers to {url}; write that out in the schema"):
            tool.check({"x": 1})
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_what_a_problem_quotes_is_bounded(tmp_path: Path) -> None:
    tool = ExternalTool.from_file(described(tmp_path, parameters={"properties": {"x": {"type": "integer"}}}))
    with pytest.raises(ToolError) as caught:
        tool.check({"x": "long " * 100_000})
    assert len(str(caught.value)) < 1_000


def test_home_is_expanded_and_a_file_may_begin_with_a_byte_order_mark() -> None:
    path = described(Path.home() / "tools" / "t")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [tool.name for tool in ExternalTool.load_all(["~/tools"]).tools] == ["t"]
    with pytest.raises(ConfigError, match="cannot read ~/none: No such file"):
        ExternalTool.from_file("~/none")
