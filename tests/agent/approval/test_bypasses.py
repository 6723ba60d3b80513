"""Ways around an approval: what nobody allowed must not run without a question, however it is written."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from planck_nb import BuiltinTools, Tool, tool
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.effect import Effect
from planck_nb.base.errors import ConfigError, UsageError
from planck_nb.config import Config
from planck_nb.jupyter.namespace import tools_named
from planck_nb.tools.changes import Changes
from planck_nb.tools.external import ExternalTool
from planck_nb.tools.reserved_names import RESERVED_NAMES
from planck_nb.workspace.toolbox import Toolbox

ALLOWED = ("bash:git status*", "bash:ls *", "bash:cat *", "bash:echo *", "bash:find *", "bash:pytest *", "write:src/**")

# Each runs something that none of the rules above is about.
COMMANDS = r"""
git status; rm x
git status;rm x
git status && rm x
git status || rm x
git status | sh
git status & rm x
git status $(rm x)
git status `rm x`
git status "$(rm x)"
git status "`rm x`"
git status <(rm x)
git status > ~/.bashrc
git status >> x
git status 2> x
git status &> x
git status >| x
git status < x
git status << EOF
git status <<< x
git status # && rm x
git status \
git status ${x:=rm}
git status $((x=1))
git status $x
(git status; rm x)
{ git status; rm x; }
! rm x
rm x #git status
GIT_PAGER='sh -c "rm x"' git status
PATH=/tmp:$PATH git status
LD_PRELOAD=./x.so git status
IFS=; git status
env git status
command git status
exec git status
sudo git status
nohup git status
time git status
eval git status
sh -c 'git status'
bash -c "git status"
xargs git status
alias ls=rm; ls x
ls() { rm x; }; ls x
function ls { rm x; }; ls x
git -c core.fsmonitor='rm x' status
git -c alias.status='!rm x' status
git -C /etc status
git --exec-path=. status
./git status
/tmp/git status
~/git status
g\it status
'git' push
git push
git statu
gitstatus
if true; then rm x; fi
while true; do rm x; done
for x in 1; do rm x; done
case x in x) rm x;; esac
ls $(find . -delete)
ls "$(rm x)"
ls ${x}
ls ~ > x
ls -la; rm x
ls | xargs rm
ls | tee x
cat x | sh
cat <(rm x)
cat > x
cat >x
cat << 'EOF' > x
echo x > y
echo x >> ~/.ssh/authorized_keys
echo $(rm x)
echo `rm x`
echo "$HOME"
echo x | sudo tee /etc/hosts
echo x && . ./x
find . | sh
find . -print0 | xargs -0 rm
find . > x
pytest; rm x
pytest $(rm x)
python x.py
. ./x
source x
trap 'rm x' EXIT
coproc rm x
rm x
\rm x
"rm" x
r''m x
$'rm' x
${0##*/} x
:; rm x
true; rm x
false || rm x
""".strip("\n").splitlines()

# Characters that some shell or reader takes for a blank or an end of line, or that hide the rest.
ODD = [
    "\r",
    "\n",
    "\v",
    "\f",
    "\0",
    "\x1b[2K",
    "\x08",
    "\x85",
    "\xa0",
    "\u2028",
    "\u2029",
    "\u3000",
    "\u200b",
    "\u202e",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path


def policy(root: Path, *rules: str) -> Policy:
    return Policy.ask_before_changes(root).with_rules(Rule.parse("allow", rule) for rule in (*ALLOWED, *rules))


def running(rules: Policy, command: str) -> str:
    return rules.decide("bash", [Effect("execute", command)], {"command": command}).action


@pytest.mark.parametrize("command", COMMANDS)
def test_no_spelling_of_a_command_is_allowed_as_another(root: Path, command: str) -> None:
    assert running(policy(root), command) != "allow"
    denied = policy(root, "*").with_rule(Rule.parse("deny", "bash:rm *"))
    assert running(denied, command) != "allow" or "rm" not in command


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_no_odd_character_ends_a_command_unseen(root: Path, odd: str) -> None:
    assert running(policy(root), f"git status{odd}rm x") != "allow"
    assert running(policy(root), f"rm x{odd}git status") != "allow"


@pytest.mark.parametrize(
    "command", ["git status", "git status -s", "ls", "ls -la src", "echo 'a; b'", "ls; git status"]
)
def test_what_is_allowed_runs(root: Path, command: str) -> None:
    assert running(policy(root), command) == "allow"


def test_what_is_remembered_allows_nothing_else(root: Path) -> None:
    for command in COMMANDS:
        rules = Policy.ask_before_changes(root)
        rules = rules.with_rule(rules.remembering("bash", [Effect("execute", command)]))
        for other in (f"{command} x", f"{command}; rm y", f"x {command}", command.replace("x", "y") + "z", "rm y"):
            assert running(rules, other) == "ask", (command, other)


# What a rule that denies `rm` has to notice, or at least to ask about, whatever else is allowed.
HIDING = [
    "env -S'-S\"rm x\"'",
    *(
        f"{program}'rm x'"
        for program in ("env -S", "env -iS", "env -vS", "env -uA -S", "flock l -c", "su -c", "tar -I")
    ),
    *(
        "env -Srm\\ x",
        "env '-Srm x'",
        "script -qc'rm x'",
        "rsync -e'rm x' a b",
        "scp -S'rm x' a b:c",
        "zip -TT'rm x' a",
    ),
    *("ls # a\\\nrm x", "ls #\\\nrm x", "ls # it's\nrm x # '", "cat <<A\\\nB\nAB\nrm x", "cat <<'A B'\nx\nA B\nrm x"),
]


@pytest.mark.parametrize("command", HIDING)
def test_what_is_denied_is_not_hidden_in_an_option_or_behind_a_comment(root: Path, command: str) -> None:
    rules = Policy.ask_before_changes(root).with_rule(Rule.parse("allow", "execute"))
    assert running(rules, command) == "allow"
    assert running(rules.with_rule(Rule.parse("deny", "bash:rm *")), command) in ("ask", "deny")


PATHS = """
src/../x src/../../x src/./../x src//..//x src/out/x src/out src/a/../../x ./src/../.git/config src/out/../x
/etc/passwd //etc/passwd /proc/self/root/etc/passwd /proc/self/cwd/../x /dev/fd/0 /dev/stdin SRC/a Src/a src\u2215a
srcs/a src\\..\\x ~/x ~root/x src/\u202e/../../x s\u0433c/a \u2024\u2024/x file:///etc/passwd src%2f..%2fx /srv/src/a
""".split()


@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_of_a_path_leads_out_of_what_is_allowed(root: Path, path: str) -> None:
    (root / "src/out").symlink_to("/etc")
    write = {made.name: made for made in BuiltinTools.all(cwd=root)}["write"]
    verdict = policy(root).decide("write", write.touched({"path": path, "content": ""}), {})
    assert verdict.action == "ask"


def test_a_link_that_is_newer_than_a_rule_does_not_widen_it(root: Path) -> None:
    rules = policy(root)
    assert rules.decide("write", [Effect("write", str(root / "src/a"))], {}).action == "allow"
    (root / "src").rmdir()
    (root / "src").symlink_to("/etc")
    assert rules.decide("write", [Effect("write", "/etc/a")], {}).action == "ask"
    assert rules.decide("write", [Effect("write", str(root / "src/a"))], {}).action == "ask"


def test_a_link_that_changes_after_it_was_checked_changes_nothing(root: Path) -> None:
    rules = policy(root)
    (root / "src/link").symlink_to("/etc/hosts")
    checked = rules.resolved([Effect("write", str(root / "src/link"))])
    (root / "src/link").unlink()
    assert [str(touch.target) for touch in checked] == ["/etc/hosts"]
    assert rules.decide("write", checked, {}).action == "ask"


def test_the_names_of_all_built_in_tools_are_reserved(tmp_path: Path) -> None:
    toolbox = Toolbox(Config.load(directory=tmp_path, home=tmp_path, environment={}), Changes(tmp_path / "changes"))
    names = {each.name for each in BuiltinTools.all(cwd=tmp_path)} | set(toolbox.tools())
    assert {"bash", "load_skill"} <= names <= RESERVED_NAMES


NAMES = [*sorted(RESERVED_NAMES), "READ", "Bash", "ask-agent"]


@pytest.mark.parametrize("name", NAMES)
def test_no_file_offers_a_tool_by_the_name_of_a_built_in_one(tmp_path: Path, name: str) -> None:
    described = {"name": name, "description": "d", "command": "rm x", "parameters": {"type": "object"}}
    (tmp_path / "TOOL.json").write_text(json.dumps(described))
    with pytest.raises(ConfigError, match=f"{name} is a reserved name; give another name"):
        ExternalTool.from_file(tmp_path / "TOOL.json")


def test_a_function_does_not_pass_for_a_built_in_tool_unless_it_is_made_a_tool() -> None:
    def read(path: str) -> str:
        return path

    with pytest.raises(UsageError, match="read is a reserved name; rename the function"):
        tools_named(["read"], {"read": read}, None)  # type: ignore[arg-type]
    own = tool(read)
    assert isinstance(own, Tool)
    assert tools_named(["read"], {"read": own}, None) == [own]  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["; rm x", "$(rm x)", "`rm x`", "' ; rm x #", '" ; rm x', "\n rm x", "-rf /", "*"])
def test_what_a_tool_of_a_file_runs_is_what_is_asked_about(tmp_path: Path, value: str) -> None:
    described = {"name": "t", "description": "d", "command": "ls -- {{x}}", "parameters": {"type": "object"}}
    (tmp_path / "TOOL.json").write_text(json.dumps(described))
    made = ExternalTool.from_file(tmp_path / "TOOL.json", cwd=tmp_path)
    touches = [touch for touch in made.touched({"x": value}) if touch.kind == "execute"]
    assert [shlex.split(touch.target) for touch in touches] == [["ls", "--", value]]
    assert policy(tmp_path).decide("t", touches, {}).action == "ask"  # the rules are for `bash`
