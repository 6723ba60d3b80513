"""Commands that are found in a text, and patterns that may match one inside it."""

from __future__ import annotations

import pytest

from planck_nb.agent.approval.commands import CommandPattern, commands_in


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("git push", ["git push"]),
        ("a b\nc|d;e&&f", ["a b", "c", "d", "e", "f"]),
        ("cat a > b c 2>d e", ["cat a c e"]),
        ("cat <a", ["cat"]),
        ("cat 2 >a", ["cat 2"]),
        ("rm a`x b`c", ["rm a$", "x b$", "c"]),
        ("rm a$(x b)c", ["rm a$", "x b", "c"]),
        ("rm 'a`b'", ["rm a`b"]),
        ('rm "a`b`c"', ["rm a`b`c"]),
        (r"r\m 'a b'c", ["rm a bc"]),
        ("a \\\nb", ["a b"]),
        ("x=1 sudo rm a", ["sudo rm a", "rm a"]),
    ],
)
def test_words_are_read_as_a_shell_does(text: str, commands: list[str]) -> None:
    assert list(dict.fromkeys(commands_in(text))) == commands


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("rm *", "echo \"r'm' b\"", True),
        ("rm *", "echo 'r\\\nm b'", True),
        ("rm *", "echo form b", False),
        ("rm *", "echo rm2 b", False),
        ("*rm *", "echo form b", True),
        ("rm* b", "echo rm2 b", True),
        ("cat /etc/*", "less ../../etc/passwd", False),
        ("cat /etc/*", "echo cat ../../etc/passwd", True),
        ("rm - x", "echo rm a- x", False),
        (r"rm \*", "echo 'rm *'", True),
        ("", "", True),
    ],
)
def test_a_pattern_may_match_inside_a_text(pattern: str, text: str, expected: bool) -> None:
    assert CommandPattern(pattern).may_catch(text) is expected


def test_a_pattern_may_have_several_commands() -> None:
    assert CommandPattern("curl * | sh").catches("curl a | sh")
    assert CommandPattern("curl * | sh").catches(" curl a | sh\n")
    assert not CommandPattern("curl * | sh").catches("curl a | sort")
