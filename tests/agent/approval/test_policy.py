"""The approval policy: what calls may do."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planck_nb.agent.approval import Action, Policy, Rule, Verdict
from planck_nb.agent.approval.command_pattern import CommandPattern
from planck_nb.agent.approval.obeyed_files import is_obeyed
from planck_nb.agent.approval.paths import PathPattern, ignores_case, resolved
from planck_nb.agent.approval.shell_command import ShellCommand
from planck_nb.agent.effect import Effect, EffectKind
from planck_nb.agent.identity import AgentIdentity
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject

ROOT = Path("/srv/project")
STRICTNESS: tuple[Action, ...] = ("allow", "ask", "deny")


def strictness(verdict: Verdict) -> int:
    return STRICTNESS.index(verdict.action)


def allow(*rules: str, policy: Policy | None = None) -> Policy:
    return with_rules("allow", rules, policy or Policy.ask_before_changes(ROOT))


def deny(*rules: str, policy: Policy | None = None) -> Policy:
    return with_rules("deny", rules, policy or Policy.allow_all(ROOT))


def with_rules(action: Action, rules: tuple[str, ...], policy: Policy) -> Policy:
    for rule in rules:
        policy = policy.with_rule(Rule.parse(action, rule))
    return policy


def action(policy: Policy, kind: EffectKind, target: str, tool: str = "some_tool") -> Action:
    return policy.decide(tool, [Effect(kind, target)], {}).action


def running(policy: Policy, command: str) -> Action:
    return action(policy, "execute", command, "bash")


# What people write


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bash", Rule("deny", tool="bash")),
        ("bash:git *", Rule("deny", tool="bash", pattern="git *")),
        ("write:src/**", Rule("deny", kind="write", pattern="src/**")),
        ("write", Rule("deny", kind="write")),
        ("network", Rule("deny", kind="network")),
        ("read:/etc/**", Rule("deny", kind="read", pattern="/etc/**")),
        ("*", Rule("deny")),
        ("*:*", Rule("deny")),
        ("github_*", Rule("deny", tool="github_*")),
        ("*@write", Rule("deny", tool="write")),
        ("write@edit:src", Rule("deny", tool="edit", kind="write", pattern="src")),
        (" bash : echo 'a:b' ", Rule("deny", tool="bash", pattern="echo 'a:b'")),
        ("network:https://example.com:8080/x", Rule("deny", kind="network", pattern="https://example.com:8080/x")),
    ],
)
def test_the_text_of_a_rule(text: str, rule: Rule) -> None:
    assert Rule.parse("deny", text) == rule
    assert Rule.parse("deny", str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "write a rule such as"),
        (":src", "write a rule such as"),
        ("Bash(git *)", "write a rule such as"),
        ("write@", "write a rule such as"),
        ("@edit", "names nothing before '@'"),
        ("delete@edit", "is not a kind of effect"),
        ("write:~/notes", "write the whole path"),
        ("write:src/*/../x", "'..' after a wildcard"),
        ("write:src/a**", "between slashes"),
        ("write:src/[ab", "that nothing closes"),
        ("read:a\0b", "NUL"),
    ],
)
def test_texts_that_are_not_rules(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=r"\w") as caught:
        Rule.parse("allow", text)
    assert hint in str(caught.value)
    assert str(caught.value).endswith((".", "itself."))


def test_invalid_actions_and_policies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'forbid'"):
        Rule.parse("forbid", "bash")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'denied'"):
        Policy(root=tmp_path, outside="denied")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is relative"):
        Policy(root=Path("here"))
    with pytest.raises(UsageError, match="has no root"):
        deny("write:src", policy=Policy.allow_all())


names = st.from_regex(r"[\w.*?-]{1,8}", fullmatch=True)
patterns = st.text(st.sampled_from("ab *?.-/:@\\'\n"), max_size=12)
kinds = st.sampled_from([None, *get_args(EffectKind)])
tools = st.one_of(names, st.sampled_from(["*", "bash", "write", "read"]))


@st.composite
def rules(draw: st.DrawFn, actions: tuple[Action, ...] = STRICTNESS) -> Rule:
    try:
        return Rule(draw(st.sampled_from(actions)), draw(tools), draw(kinds), draw(patterns))
    except UsageError:
        assume(condition=False)
        raise


@given(rules())
def test_the_text_of_a_rule_parses_to_the_rule(rule: Rule) -> None:
    assert Rule.parse(rule.action, str(rule)) == rule


# Defaults


def test_the_notebook_asks_before_changes() -> None:
    policy = Policy.ask_before_changes(ROOT)
    assert action(policy, "read", "/srv/project/a/b.py") == "allow"
    assert action(policy, "read", "/srv/project") == "allow"
    assert action(policy, "read", "/srv/projects/b.py") == "ask"
    assert action(policy, "read", "/srv/project/../b.py") == "ask"
    assert action(policy, "read", "") == "ask"
    assert action(policy, "write", "/srv/project/b.py") == "ask"
    assert action(policy, "execute", "ls") == "ask"
    assert action(policy, "network", "https://example.com") == "ask"
    assert policy.decide("their_function", [], {"x": 1}).action == "allow"


def test_an_agent_without_a_policy_does_everything() -> None:
    policy = Policy.allow_all()
    for kind in get_args(EffectKind):
        assert action(policy, kind, "") == action(policy, kind, "/etc/passwd") == "allow"


def test_one_sentence_says_why() -> None:
    policy = deny("write:secret", policy=Policy.ask_before_changes(ROOT))
    said = policy.decide("edit", [Effect("write", "/srv/project/secret/x")], {})
    assert said.reason == "Writing /srv/project/secret/x is forbidden by the rule 'deny write:secret'."
    assert said.rule == Rule.parse("deny", "write:secret")
    said = policy.decide("read", [Effect("read", "/etc/hosts")], {})
    assert said == Verdict("ask", None, "Reading /etc/hosts needs approval, because it is outside of /srv/project.")
    said = policy.decide("bash", [Effect("execute", "echo\n" + "x" * 500)], {})
    assert said.reason.startswith("Running `echo xxx")
    assert len(said.reason) < 250
    assert "\n" not in said.reason


def test_the_strictest_of_several_effects_decides() -> None:
    policy = deny("network", policy=Policy.ask_before_changes(ROOT))
    read, write, network = (
        Effect("read", "/srv/project/a"),
        Effect("write", "/srv/project/a"),
        Effect("network", "x.org"),
    )
    for order in itertools.permutations([read, write]):
        assert policy.decide("t", order, {}).action == "ask"
    for order in itertools.permutations([read, write, network]):
        assert policy.decide("t", order, {}).action == "deny"


# Which rule wins


def test_what_may_not_be_read_may_not_be_changed_either() -> None:
    policy = deny("read:.env", policy=allow("write"))  # the result of a change shows what was there
    assert action(policy, "write", f"{ROOT}/.env") == "deny"
    assert action(policy, "write", f"{ROOT}/x") == "allow"
    assert action(deny("write:.env"), "read", f"{ROOT}/.env") == "allow"
    assert action(deny("read"), "write", f"{ROOT}/x") == "allow"


def test_deny_beats_allow_beats_ask_in_any_order() -> None:
    three = [Rule.parse(action, "bash") for action in STRICTNESS]
    for order in itertools.permutations(three):
        assert running(Policy(order, ROOT), "ls") == "deny"
    for order in itertools.permutations(three[:2]):
        assert running(Policy(order, ROOT), "ls") == "allow"
    assert running(Policy((three[1],), ROOT, {"execute": "allow"}), "ls") == "ask"


def test_an_ask_rule_does_not_override_a_default_of_deny() -> None:
    policy = Policy((Rule.parse("ask", "bash"),), ROOT, {"execute": "deny"}, undeclared="deny")
    assert running(policy, "ls") == "deny"
    assert policy.decide("bash", [], {}).action == "deny"


def test_an_uncertain_deny_rule_does_not_weaken_a_default_of_deny() -> None:
    policy = deny("bash:rm *", policy=Policy(root=ROOT, default={"execute": "deny"}))
    assert running(policy, "$X") == "deny"
    assert running(allow("bash", policy=policy), "$X") == "ask"


def test_a_bare_kind_is_the_kind_and_the_tool_of_that_name() -> None:
    policy = deny("write")
    assert action(policy, "write", "/x", "edit") == "deny"
    assert policy.decide("write", [], {}).action == "deny"
    assert policy.decide("write", [Effect("read", "/x")], {}).action == "deny"
    assert policy.decide("edit", [Effect("read", "/x")], {}).action == "allow"
    assert policy.decide("edit", [], {}).action == "allow"
    policy = allow("write")
    assert action(policy, "write", "/x", "edit") == "allow"
    assert policy.decide("write", [], {}).action == "allow"
    assert action(policy, "execute", "id", "write") == "ask"  # a tool may be named so and do what it likes
    only_tool = deny("*@write")
    assert action(only_tool, "write", "/x", "edit") == "allow"
    assert action(only_tool, "write", "/x", "write") == "deny"


def test_a_tool_that_declares_nothing_is_judged_by_name_and_texts() -> None:
    call: JsonObject = {"urls": [{"at": "https://intranet/x"}], "n": 3}
    assert deny("fetch").decide("fetch", [], call).action == "deny"
    assert deny("fe*").decide("fetch", [], call).action == "deny"
    assert deny("fetch:*intranet*").decide("fetch", [], call).action == "deny"
    assert deny("fetch:*example*").decide("fetch", [], call).action == "allow"
    assert deny("network").decide("fetch", [], call).action == "allow"
    strict = Policy(root=ROOT, undeclared="ask")
    assert allow("fetch", policy=strict).decide("fetch", [], call).action == "allow"
    assert allow("fetch:*intranet*", policy=strict).decide("fetch", [], call).action == "ask"


touches = st.builds(
    Effect,
    st.sampled_from(get_args(EffectKind)),
    st.one_of(
        st.sampled_from(["", "a", "/srv/project/a", "/srv/ab", "/etc/x", "git a; b", "a b", "$(a)", "https://a.b/"]),
        st.text(st.sampled_from("ab *./;$\n'"), max_size=8),
    ),
)
policies = st.builds(
    Policy,
    st.lists(rules(), max_size=4).map(tuple),
    st.just(ROOT),
    st.dictionaries(st.sampled_from(get_args(EffectKind)), st.sampled_from(STRICTNESS)),
    st.sampled_from(STRICTNESS),
    st.sampled_from(STRICTNESS),
)
calls = st.tuples(st.sampled_from(["bash", "write", "ab"]), st.lists(touches, max_size=3))


@given(policies, rules(("ask", "deny")), calls)
def test_an_added_ask_or_deny_never_permits_more(policy: Policy, rule: Rule, call: tuple[str, list[Effect]]) -> None:
    before, after = policy.decide(*call, {}), policy.with_rule(rule).decide(*call, {})
    assert strictness(after) >= strictness(before)


@given(policies, rules(("allow",)), calls)
def test_an_added_allow_never_forbids_more(policy: Policy, rule: Rule, call: tuple[str, list[Effect]]) -> None:
    before, after = policy.decide(*call, {}), policy.with_rule(rule).decide(*call, {})
    assert strictness(after) <= strictness(before)


@given(policies, rules(("deny",)), calls)
def test_deny_always_wins(policy: Policy, rule: Rule, call: tuple[str, list[Effect]]) -> None:
    alone = Policy((rule,), ROOT, dict.fromkeys(get_args(EffectKind), "allow"), "allow")
    if alone.decide(*call, {}).action == "deny":
        assert policy.with_rule(rule).decide(*call, {}).action == "deny"


@given(policies, calls, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(policy: Policy, call: tuple[str, list[Effect]], random: object) -> None:
    shuffled = list(policy.rules)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Policy(tuple(shuffled), policy.root, policy.default, policy.outside, policy.undeclared)
    assert other.decide(*call, {}).action == policy.decide(*call, {}).action


# Paths


@pytest.mark.parametrize(
    ("pattern", "inside", "elsewhere"),
    [
        ("src", ["src", "src/a", "src/a/b"], ["srcs", "a/src", "."]),
        ("src/", ["src/a/b"], ["srcs"]),
        (".", [".", "a/b"], ["../a", "../project2"]),
        ("./*", ["a", ".conf"], ["a/b", "."]),
        ("src/*", ["src/a"], ["src/a/b", "src"]),
        ("src/**", ["src", "src/a", "src/a/b"], ["srcs/a", "a/src/b"]),
        ("**/.conf", [".conf", "a/.conf", "a/b/.conf"], [".confs", ".conf/a", "../.conf"]),
        ("src/**/x/*.py", ["src/x/a.py", "src/a/b/x/a.py"], ["src/a.py", "src/x/b/a.py"]),
        ("a[bc]?", ["abd", "acd"], ["add", "ab", "ab/d"]),
        ("a[!b]c", ["axc"], ["abc", "a/c"]),
        ("a[[]b", ["a[b"], ["ab"]),
        ("../data/**", ["../data/x"], ["data/x", "../x"]),
        ("/srv/**/x", ["x", "../x", "a/b/x"], ["a", "../../x"]),
        ("*", ["a", "a/b", "../x", "/etc/x"], []),
    ],
)
def test_path_patterns(pattern: str, inside: list[str], elsewhere: list[str]) -> None:
    allowing, denying = allow(f"write:{pattern}"), deny(f"write:{pattern}")
    for path in inside:
        assert action(allowing, "write", str(ROOT / path)) == "allow", path
        assert action(denying, "write", str(ROOT / path)) == "deny", path
    for path in elsewhere:
        assert action(allowing, "write", str(ROOT / path)) == "ask", path
        assert action(denying, "write", str(ROOT / path)) == "allow", path


def test_a_path_that_cannot_be_resolved_may_be_denied() -> None:
    assert action(deny("write:src"), "write", "") == "ask"
    assert action(deny("edit:~/.ssh"), "write", "/home/a/.ssh/x", "edit") == "ask"
    assert action(allow("write:src"), "write", "") == "ask"
    assert action(allow("write"), "write", "") == "allow"
    assert action(deny("write:src"), "write", "/srv/project/a\0b") == "ask"
    assert action(deny("write:src"), "write", "/srv/project/\ud800") == "ask"


def test_a_link_is_judged_by_its_target(tmp_path: Path) -> None:
    root, other = tmp_path / "a", tmp_path / "ab"
    root.mkdir()
    other.mkdir()
    (root / "way").symlink_to(other)
    (root / "loop").symlink_to(root / "loop")
    (tmp_path / "alias").symlink_to(root)
    policy = Policy(root=tmp_path / "alias", default={"read": "allow"}, outside="deny")
    assert action(policy, "read", str(root / "x")) == "allow"
    assert action(policy, "read", str(tmp_path / "alias" / "x")) == "allow"
    assert action(policy, "read", str(other / "x")) == "deny"
    assert action(policy, "read", str(root / "way" / "new" / "x")) == "deny"
    assert action(policy, "read", str(root / "way" / ".." / "a" / "x")) == "allow"
    assert action(policy, "read", str(root / "new" / ".." / ".." / "ab" / "x")) == "deny"
    assert action(policy, "read", str(root / "loop" / "x")) != "allow"
    through = deny("write:way", policy=Policy.allow_all(root))
    assert action(through, "write", str(other / "x")) == "deny"


def test_nothing_allows_what_outside_denies() -> None:
    policy = allow("*", "write:/etc/**", policy=Policy(root=ROOT, outside="deny"))
    assert action(policy, "write", "/etc/hosts") == "deny"
    assert action(policy, "write", "") == "deny"
    assert action(policy, "write", "/srv/project/x") == "allow"
    assert "outside of /srv/project" in policy.decide("t", [Effect("write", "/etc/hosts")], {}).reason
    assert action(allow("*", policy=Policy(outside="deny")), "read", "/x") == "deny"  # no root: everything is outside


STEPS = ["..", ".", "a", "b", "in", "out", "up", "A", " ", "*"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with links inside, out of it and up."""
    root = tmp_path_factory.mktemp("tree") / "a"
    (root / "a" / "b").mkdir(parents=True)
    (root.parent / "b").mkdir()
    (root / "in").symlink_to("a/b")
    (root / "out").symlink_to(root.parent / "b")
    (root / "a" / "up").symlink_to("../..")
    return root


@given(steps=st.lists(st.sampled_from(STEPS), max_size=8), more=st.lists(rules(("allow",)), max_size=3))
def test_no_path_escapes(tree: Path, steps: list[str], more: list[Rule]) -> None:
    policy = Policy((*more, Rule("allow")), tree, outside="deny")
    target = os.path.join(tree, *steps)  # noqa: PTH118 - Path would not keep the dots
    really = os.path.realpath(target)
    is_inside = os.path.commonpath([really, os.path.realpath(tree)]) == os.path.realpath(tree)
    assert action(policy, "write", target) == ("allow" if is_inside else "deny")


def test_case_matters_as_in_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "Notes"
    folder.mkdir()
    assert ignores_case(folder / "x") == (tmp_path / "nOTES").exists()
    monkeypatch.setattr("planck_nb.agent.approval.paths.ignores_case", lambda path: True)
    assert PathPattern("SRC/*.PY", tmp_path).covers(str(tmp_path / "src" / "a.py"))
    assert action(Policy(root=tmp_path, outside="deny"), "read", str(tmp_path).upper() + "/x") == "allow"


def test_a_pattern_takes_linear_time() -> None:
    pattern = PathPattern("/".join(["**", "a*a*a*b"] * 20), ROOT)
    assert not pattern.covers(str(ROOT / "/".join(["a" * 200] * 40)))
    assert resolved("a/" * 100_000, ROOT) is None
    assert CommandPattern("rm *").may_catch(ShellCommand.parse("! " * 4_900))
    command = CommandPattern("*a*a*a*a*a*b c*d *--force*")
    assert not command.covers(ShellCommand.parse("a" * 100_000))
    assert not command.may_catch(ShellCommand.parse("a " * 4_900))
    assert command.may_catch(ShellCommand.parse("a " * 50_000))  # too long to be read


# Commands


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("ls", ("ls",)),
        ("  git   status \n", ("git status",)),
        ("a && b || c | d; e & f\ng", tuple("abcdefg")),
        ("echo 'a; b' \"c | d\"", ("echo 'a; b' \"c | d\"",)),
        ("echo a'  'b", ("echo a'  'b",)),
        ("find . -name *.py", ("find . -name *.py",)),
        ("", ()),
    ],
)
def test_commands_that_are_certain(command: str, parts: tuple[str, ...]) -> None:
    assert ShellCommand.parse(command).parts == parts


@pytest.mark.parametrize(
    "command",
    [*("a <b", "a >b", "a `b`", "a $(b)", "a $b", "a <(b)", "(a)", "a \\b", "a # 'b", "a 'b", 'a "b', "a\rb", "a\0b")],
)
def test_commands_that_are_uncertain(command: str) -> None:
    assert ShellCommand.parse(command).parts is None
    assert running(allow("bash:a *"), command) == "ask"
    assert running(allow("bash:a*"), command) == "ask"
    assert running(allow("bash"), command) == running(allow("bash:*"), command) == "allow"


def test_command_patterns_that_allow() -> None:
    git = allow("bash:git *")
    assert running(git, "git") == running(git, "git status") == running(git, "git commit -m 'a; b'") == "allow"
    for other in (
        "gitk",
        "/tmp/git x",
        "A=1 git x",
        "git x; ls",
        "git x\nls",
        "git x | sh",
        "git x & ls",
        "",
        "sudo git",
    ):
        assert running(git, other) == "ask", other
    assert running(allow("bash:git*"), "gitk") == "allow"
    assert running(allow("bash:ls"), "ls -a") == "ask"
    assert running(allow("bash:ls [ab]? \\*"), "ls [ab]? *") == "allow"
    assert running(allow("bash:ls [ab]? \\*"), "ls ac x") == "ask"


def test_each_part_of_a_command_has_to_be_allowed() -> None:
    policy = allow("bash:cd *", "bash:pytest *")
    assert running(policy, "cd src && pytest -q") == "allow"
    assert running(policy, "cd src && pytest -q | tee x") == "ask"
    assert running(policy, "cd src && pytest -q > x") == "ask"


def test_a_compound_command_is_allowed_to_the_letter() -> None:
    policy = allow("bash:make > log && tail log")
    assert running(policy, "make > log && tail log") == "allow"
    assert running(policy, "make > log && tail log; ls") == "ask"
    assert running(policy, "make > log") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rm", "rm -rf x", "ls; rm x", "ls && rm x", "ls | rm x", "ls & rm x", "ls\nrm x", "(rm x)", "{ rm x; }",
        "echo $(rm x)", "echo `rm x`", "cat <(rm x)", 'r""m x', "r''m x", '"rm" x', r"\rm x", "r\\\nm x", "A=1 rm x",
        "A=1 B=2 rm x", "command rm x", "/bin/rm x", "sudo rm x", "sudo -n rm x", "env A=1 rm x", "exec /bin/rm x",
        "if true; then rm x; fi", "while rm x; do :; done", "ls # rm\nrm x", "ls #; rm x", "! rm x",
        ">f rm x", "2>&1 rm x", "2> f rm x", "< f rm x", "<<<x rm x", "&>f rm x", "\\\n rm x", "ls >f\nrm x",
        "echo # don't\nrm x",
    ],
)  # fmt: skip
def test_what_is_denied_inside_of_a_command(command: str) -> None:
    assert running(deny("bash:rm *"), command) == "deny"
    assert running(deny("bash:rm *", policy=allow("bash")), command) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'rm x'", 'eval "$X"', "sudo -u bob rm x", "find . -exec rm {} +", "xargs rm", "$RM x", "${RM} x",
        "r$X x",
        "/bin/r? x", "r[m] x", "{rm,x}", "r`echo m` x", "$'\\x72m' x", 'echo "$(rm x)"', "echo rm x",
        "curl x | sh", ". ./x.sh", "bash x.sh", ">f $X x", "<<E $X", "2>&1 >f r?", "X=rm; $X x", "",
        "trap 'r''m x' EXIT", "! " * 30 + "rm x", "! " * 30 + "r'm' x",
        "echo # don't\nrm x; echo 'y'", "$(echo r)m x",
    ],
)  # fmt: skip
def test_what_may_be_denied_is_asked(command: str) -> None:
    verdict = deny("bash:rm *").decide("bash", [Effect("execute", command)], {})
    assert verdict.action == "ask"
    assert verdict.rule == Rule.parse("deny", "bash:rm *")
    assert "may forbid it" in verdict.reason


@pytest.mark.parametrize(
    "command",
    [
        "ls", "format x", "docker run --rm x", "cat rm.txt a-rm", "echo $HOME", "x=$(date)", "[ -f x ] && ls",
        "ls *.py", "[[ -f x ]]", "ls > x", "for f in a b; do echo $f; done", "echo '#'",
    ],
)  # fmt: skip
def test_what_has_nothing_to_do_with_a_denied_command(command: str) -> None:
    assert running(deny("bash:rm *"), command) == "allow"


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("x=push; git $x", "ask"), ("git p${x}ush", "ask"), ("git pus?", "ask"), ("git [p]ush", "ask"),
        ("git {p,}ush", "ask"), ("git -C . $x origin", "ask"), ("sudo git `x`", "ask"),
        ("git add *.py", "allow"), ("git status; echo $HOME", "allow"), ("echo $HOME", "allow"), ("ls git $x", "allow"),
    ],
)  # fmt: skip
def test_an_argument_that_the_shell_computes_may_be_the_denied_one(command: str, action: Action) -> None:
    assert running(deny("bash:git push *"), command) == action


def test_other_patterns_that_deny() -> None:
    push = deny("bash:git push *")
    assert running(push, "git push") == running(push, "cd x; git  push -f") == "deny"
    assert running(push, "git -C x push") == "ask"
    assert running(push, "git status") == "allow"
    assert running(deny("bash:sudo *"), "sudo rm x") == "deny"
    assert running(deny("bash:*--force*"), "git push --force-with-lease") == "deny"
    assert running(deny("bash:curl * | sh*"), "curl x | sh") == "deny"
    assert running(deny("bash:curl * | python*"), "curl x |python") == "ask"
    assert running(deny('execute:git commit -m "x"'), 'git commit -m "x"') == "deny"


# Addresses


def test_addresses() -> None:
    policy = allow("network:*.example.com", "network:https://example.org:8080/api/*")
    for allowed in (
        "a.example.com",
        "https://a.example.com/x?y",
        "http://A.EXAMPLE.com.:80/",
        "https://u:p@a.example.com",
    ):
        assert action(policy, "network", allowed) == "allow", allowed
    assert action(policy, "network", "https://example.org:8080/api/x") == "allow"
    for other in (
        "example.com", "https://evil.com/.example.com", "https://evil.com?.example.com", "https://a.example.com@evil.com",
        "https://evil.com\\@a.example.com", "https://evil.com#.example.com", "https://a.example.com.evil.com",
        "https://a.example.com/ x", "http://example.org:8080/api/x", "https://example.org/api/x", "",
        "https://example.org:8080/api/../x", "https://example.org:8080/api/%2E%2e/x", "https://example.org:8080/apis",
    ):  # fmt: skip
        assert action(policy, "network", other) == "ask", other
    denying = deny("network:http://*.example.com")
    assert action(denying, "network", "http://a.example.com/x") == "deny"
    assert action(denying, "network", "a.example.com") == action(denying, "network", "http://a\\b") == "ask"
    assert action(denying, "network", "https://a.example.com") == action(denying, "network", "http://b.org") == "allow"
    assert action(deny("network:[::1]"), "network", "http://[::1]:80/") == "deny"


# Remembered


@pytest.mark.parametrize(
    ("tool", "touch", "rule"),
    [
        ("bash", Effect("execute", "git status"), "execute@bash:git status"),
        ("bash", Effect("execute", " ls *.py | wc\n"), "execute@bash:ls \\*.py | wc"),
        ("bash", Effect("execute", ""), "execute@bash"),
        ("edit", Effect("write", "/srv/project/src/a.py"), "write:./src/**"),
        ("edit", Effect("write", "/srv/project/a.py"), "write:./*"),
        ("edit", Effect("write", "/srv/project/ [x]*/a"), "write:./ [[]x][*]/**"),
        ("edit", Effect("write", ""), "write@edit"),
        ("read", Effect("read", "/srv/project2/a"), "read:/srv/project2/*"),
        ("read", Effect("read", "/a"), "read:/*"),
        ("fetch", Effect("network", "https://a.org:80/x?y"), "network@fetch:https://a.org:80"),
        ("fetch", Effect("network", "a.org"), "network@fetch:a.org"),
        ("fetch", Effect("network", "https://a\\b/"), "network@fetch:https://a\\b/"),
        ("an odd:name", Effect("network", "a.org"), "network@an?odd?name:a.org"),
    ],
)
def test_what_always_allows(tool: str, touch: Effect, rule: str) -> None:
    policy = Policy.ask_before_changes(ROOT)
    remembered = policy.remembering(tool, [touch])
    assert (remembered.action, str(remembered)) == ("allow", rule)
    assert policy.with_rule(remembered).decide(tool, [touch], {}).action == "allow"


def test_what_always_does_not_allow() -> None:
    policy = Policy.ask_before_changes(ROOT)

    def after(*touches: Effect) -> Policy:
        return policy.with_rule(policy.remembering("bash", touches))

    assert running(after(Effect("execute", "ls *.py")), "ls x.py") == "ask"
    assert running(after(Effect("execute", "git push")), "git push -f") == "ask"
    assert action(after(Effect("execute", "ls")), "execute", "ls", "other") == "ask"
    assert action(after(Effect("write", "/srv/project/a")), "write", "/srv/project/b/c") == "ask"
    assert action(after(Effect("write", "/srv/project/a")), "read", "/srv/a") == "ask"
    assert action(after(Effect("read", "/etc/a")), "read", "/etc/b/c") == "ask"
    both = after(Effect("read", "/srv/project/a"), Effect("write", "/srv/project/x/a"), Effect("execute", "ls"))
    assert [str(rule) for rule in both.rules] == ["write:./x/**"]
    strict = Policy(root=ROOT, undeclared="ask")
    assert strict.with_rule(strict.remembering("write", [])).decide("write", [], {}).action == "allow"
    assert str(strict.remembering("write", [])) == "*@write"


@pytest.mark.slow
@given(calls.filter(lambda call: len(call[1]) == 1 and Path(ROOT, call[1][0].target).resolve() != Path("/")))
def test_what_was_approved_for_ever_is_allowed(call: tuple[str, list[Effect]]) -> None:
    policy = Policy.ask_before_changes(ROOT)
    assert policy.with_rule(policy.remembering(*call)).decide(*call, {}).action == "allow"


# A real shell tells what a command runs

FRAGMENTS = (
    "probe", "echo", "x", "pro", "be", " ", " ", ";", "&&", "|", "&", "\n", "'", '"', "\\", "`", "$(", ")", "<(", "<<<",
    ">f", "<<E", "\nE\n", "#", "$X", "${X}", "{", "}", "!", "A=1 ", "eval ", "sh -c ", "command ", "exec ", "*", "?",
    ",", "$'", '$"', "pr''obe", "\\probe", "=", "then", "if ", "; fi", "~", "[", "\t", "env ", "time ", "\r",
)  # fmt: skip
SCRIPTS = st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join)
SHELL = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


class Shell:
    """A shell whose only other programs are `probe`, which leaves a mark, and a few that run programs."""

    def __init__(self, folder: Path) -> None:
        self._bash = shutil.which("bash") or pytest.skip("bash is not installed; install it to check commands by it.")
        self._programs, self._place, self._mark = folder / "bin", folder / "place", folder / "mark"
        self._programs.mkdir()
        probe = self._programs / "probe"
        probe.write_text(f"#!{self._bash}\necho > {self._mark}\n")
        probe.chmod(0o755)
        for name in ("sh", "env"):
            (self._programs / name).symlink_to(shutil.which(name) or self._bash)

    def leaves(self, command: str) -> set[str]:
        """The traces of a command: the mark of `probe`, and the names of files."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._mark.unlink(missing_ok=True)
        self._place.mkdir()
        subprocess.run(
            [self._bash, "-c", command],
            cwd=self._place,
            env={"PATH": str(self._programs), "X": "probe"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        return {path.name for path in (*self._place.iterdir(), self._mark) if path.exists()}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.mark.process
@SHELL
@given(rest=SCRIPTS)
def test_a_pattern_of_one_command_never_allows_another(shell: Shell, rest: str) -> None:
    command = f"echo {rest}"
    if running(allow("bash:echo *"), command) == "allow":
        assert not shell.leaves(command)


@pytest.mark.process
@SHELL
@given(script=SCRIPTS)
def test_what_a_shell_runs_is_not_allowed_when_denied(shell: Shell, script: str) -> None:
    if running(deny("bash:probe *", "bash:probe"), script) == "allow":
        assert "mark" not in shell.leaves(script)


ANN, BOB = AgentIdentity("a1", "ann", role="worker"), AgentIdentity("b1", "bob")


@pytest.mark.parametrize(
    ("text", "ann", "bob"),
    [
        ("write", True, True),
        ("agent=ann write", True, False),
        ("agent=* write", True, True),
        ("agent=a1 write", False, False),  # an id is no name
        ("agent_id=a1 write", True, False),
        ("agent_id=a1,b1 write", True, True),
        ("role=worker write", True, False),
        ("agent=bob role=worker write", False, False),
    ],
)
def test_a_rule_may_be_for_some_agents(text: str, *, ann: bool, bob: bool) -> None:
    rule = Rule.parse("allow", text)
    assert (rule.is_for(ANN), rule.is_for(BOB)) == (ann, bob)
    assert Rule.parse("allow", str(rule)) == rule
    policy = Policy(rules=(rule,), root=Path("/"), default={})
    effect = [Effect("write", "/x")]
    assert [policy.for_agent(one).decide("t", effect, {}).action for one in (ANN, BOB)] == [
        "allow" if expected else "ask" for expected in (ann, bob)
    ]


def test_an_agent_that_has_the_id_of_another_as_its_name_gets_none_of_its_rules() -> None:
    rule = Rule("allow", "bash").limited_to(ANN, "agent")
    assert rule.is_for(ANN)
    assert not rule.is_for(AgentIdentity("c1", "a1"))


@pytest.mark.parametrize("text", ['agent="" bash', 'role="" bash', "agent=a agent=b bash", "role=workr bash"])
def test_a_rule_that_names_nobody_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Rule.parse("allow", text)


@given(st.text(min_size=1))
def test_the_name_of_an_agent_is_read_as_it_was_written(name: str) -> None:
    rule = Rule("allow", "bash", agent=name)
    assert Rule.parse("allow", str(rule)) == rule


@pytest.mark.parametrize(
    ("default", "inside", "outside"),
    [
        ("allow", "is allowed, as no rule", "it is outside of"),
        ("ask", "as no rule", "as no rule"),
        ("deny",) + ("as no rule",) * 2,
    ],
)
def test_a_default_that_allows_holds_in_the_folder_only(default: Action, inside: str, outside: str) -> None:
    policy = Policy(root=ROOT, default={"write": default})
    for path, why, action in ((ROOT / "a", inside, default), (Path("/srv/b"), outside, default)):
        verdict = policy.decide("write", [Effect("write", str(path))], {})
        assert verdict.action == ("ask" if action == "allow" and path == Path("/srv/b") else action)
        assert why in verdict.reason


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_a_rule_that_asks_overrides_no_default_that_denies(default: Action) -> None:
    policy = Policy(root=ROOT, default={"write": default}, rules=(Rule.parse("ask", "write:a"),))
    assert policy.decide("write", [Effect("write", str(ROOT / "a"))], {}).action == (
        "deny" if default == "deny" else "ask"
    )


OBEYED = ".vscode/tasks.json .git/hooks/pre-commit .git/config .planck/mcp.json .envrc AGENTS.md src/.claude/x a.pth"


@pytest.mark.parametrize("name", OBEYED.split())
@pytest.mark.parametrize("rule", ["write", "write:**", "write:./**", "bash"])
def test_what_programs_obey_by_themselves_asks_unless_a_rule_names_it(tmp_path: Path, name: str, rule: str) -> None:
    effects = [Effect("write", str(tmp_path / name))]
    policy = Policy.ask_before_changes(tmp_path).with_rule(Rule.parse("allow", rule))
    if rule == "bash":
        effects.append(Effect("execute", "make"))
    assert policy.decide("bash" if rule == "bash" else "write", effects, {}).action == "ask"
    remembered = policy.remembering("write", effects[:1])
    assert policy.with_rule(remembered).decide("write", effects[:1], {}).action == "allow"
    other = [Effect("write", str(tmp_path / name).removesuffix(Path(name).name) + "other")]
    assert remembered.covers(effects[0], tmp_path)
    assert not remembered.covers(other[0], tmp_path)
    assert policy.decide("write", [Effect("write", str(tmp_path / "src/a.py"))], {}).action == (
        "ask" if rule == "bash" else "allow"
    )


@pytest.mark.parametrize("target", [".git/hooks/pre-commit", ".env", "AGENTS.md"])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_link_that_is_newer_than_a_rule_names_no_other_file(tmp_path: Path, target: str, kind: EffectKind) -> None:
    policy = Policy.ask_before_changes(tmp_path).with_rule(Rule.parse("allow", f"{kind}:notes.md"))
    assert action(policy, kind, str(tmp_path / "notes.md")) == "allow"
    (tmp_path / "notes.md").symlink_to(target)
    expected = "allow" if kind == "read" and target != ".env" else "ask"
    assert action(policy, kind, str(tmp_path / "notes.md")) == expected


def test_what_programs_load_is_found_as_the_file_system_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_obeyed(tmp_path / ".VSCode/tasks.json", tmp_path) == (tmp_path.parent / tmp_path.name.upper()).exists()
    monkeypatch.setattr("planck_nb.agent.approval.obeyed_files.ignores_case", lambda path: True)
    for name in (".VSCode/tasks.json", "agents.md", ".GIT/Config", ".GitHub/Copilot-Instructions.md"):
        assert is_obeyed(tmp_path / name, tmp_path), name


ENVIRONMENT = ["venv/bin/python", "venv/lib/python3.12/site-packages/x.py", "conda/bin/pip", "new/pyvenv.cfg"]


@pytest.mark.parametrize("name", [*ENVIRONMENT, "lib/site-packages/x.py"])
def test_what_is_in_an_environment_asks(tmp_path: Path, name: str) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pyvenv.cfg").touch()
    (tmp_path / "conda/conda-meta").mkdir(parents=True)
    policy = Policy.ask_before_changes(tmp_path).with_rule(Rule.parse("allow", "write"))
    assert action(policy, "write", str(tmp_path / name)) == "ask"
    assert action(policy, "read", str(tmp_path / name)) == "allow"
    own = Policy.ask_before_changes(tmp_path / "venv").with_rule(Rule.parse("allow", "write"))
    assert action(own, "write", str(tmp_path / "venv/notes.md")) == "allow"
