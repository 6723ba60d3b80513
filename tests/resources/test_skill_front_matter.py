"""Front matter: real YAML, lenient where authors write plain text, safe and quick whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb.resources.front_matter import MAX_BYTES, parse

YAMLISH = [
    "a", "b", ": ", ":", "- ", "? ", "[", "]", "{", "}", ",", "\n", "\n  ", "'", '"', "|", ">", "*a", "&a ", "!",
    "!!str ", "%YAML 1.1\n",
    "#", "\\U99999999", "\\uD800", "\t", "...\n", "\x85", "<<", "=", "~", "é", "\0", "@", "name: ", "\r",
]  # fmt: skip


def block(text: str) -> bytes:
    return f"---\n{text}\n---\nBody\n".encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b", {"a": "b"}),
        ("a: >\n  one\n  two\nb: |\n  x: y\n  z", {"a": "one two\n", "b": "x: y\nz\n"}),
        ('a: "with: colon"\nb: \'it\'\'s\'', {"a": "with: colon", "b": "it's"}),
        ("a: 1.10\nb: no\nc: 2026-01-02\nd:", {"a": "1.10", "b": "no", "c": "2026-01-02", "d": ""}),
        ("metadata:\n  author: me\ntools: [a, 'b']", {"metadata": {"author": "me"}, "tools": ["a", "b"]}),
        ("a: !!python/object/apply:os.system ['true']", {"a": ["true"]}),
    ],
)  # fmt: skip
def test_values_of_yaml_stay_strings(text: str, expected: object) -> None:
    assert parse(block(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("description: A: b", "A: b"),
        ('description: Use when: the user\'s "x": y\n  and: more\nname: n', 'Use when: the user\'s "x": y and: more'),
        ("description: *important* thing", "*important* thing"),
        ("description: @someone `code` %", "@someone `code` %"),
        ("description: [beta] does: this", "[beta] does: this"),
        ('description: "Foo" bar: baz', '"Foo" bar: baz'),
        ("description: > 5 items: fast", "> 5 items: fast"),
        ("description: A: b\nother: |\n  x: y: z\nmetadata:\n  k: v\nlist: [a, b]", "A: b"),
    ],
)
def test_plain_text_that_is_not_yaml_is_taken_literally(text: str, expected: str) -> None:
    fields = parse(block(text))
    assert fields["description"] == expected
    assert fields.get("other", "x: y: z\n") == "x: y: z\n"
    assert fields.get("metadata", {"k": "v"}) == {"k": "v"}
    assert fields.get("list", ["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    "head",
    [
        b"---\r\na: b\r\n---\r\nBody",
        b"\xef\xbb\xbf---\na: b\n---",
        b"--- \na: b\n---\t\nBody\n---\n",
        b"---\n\na: b # comment\n\n---\n\xff\xfe body in any encoding",
    ],
)
def test_line_ends_and_marks_do_not_matter(head: bytes) -> None:
    assert parse(head) == {"a": "b"}


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "does not begin with"),
        (b"# Title\n---\na: b\n---\n", "does not begin with"),
        (b"\n---\na: b\n---\n", "does not begin with"),
        (b" ---\na: b\n---\n", "does not begin with"),
        (b"----\na: b\n---\n", "does not begin with"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "does not begin with"),
        ("---\na: b\n---\n".encode("utf-16"), "does not begin with"),
        (b"---", "no closing line"),
        (b"---\na: b\n", "no closing line"),
        (b"---\na: b\n ---\n", "no closing line"),
        (b"---\n---\n", "not a mapping"),
        (b"---\njust text\n---\n", "not a mapping"),
        (b"---\n- a\n- b\n---\n", "not a mapping"),
        (b"---\na: \xff\n---\n", "not UTF-8"),
        (b"---\na: \x00\n---\n", "not valid YAML: it holds a character"),
        (b'---\na: "\\U99999999"\n---\n', "not valid YAML: it holds a character"),
        (b"---\na:\n\tb\n---\n", "not valid YAML: .* in line 3"),
        (b"---\n? [a]\n: b\n---\n", "not valid YAML: found unhashable key in line 2"),
        (b"---\na: &x b\nc: *x\n---\n", "aliases"),
        (b"---\na: " + b"[" * 17 + b"]" * 17 + b"\n---\n", "nested more than 16"),
    ],
)
def test_errors_say_what_is_wrong(head: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(head)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["[", "{", "- ", "? ", "a: [", "&a ", "!", "'", "a:", "a: b\n", "x: y: z\n", "\t", "a: \\\n"]
)
def test_hostile_text_is_parsed_quickly(piece: str) -> None:
    try:
        parse(block(piece * ((MAX_BYTES - 20) // len(piece))))
    except ValueError as error:
        assert str(error).startswith("it")  # noqa: PT017 - some of these are valid


@pytest.mark.timeout(10)
def test_an_alias_bomb_is_refused() -> None:
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ValueError, match=r"aliases such as '\*name'; write each value out"):
        parse(block("\n".join(rows)))


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(st.sampled_from(YAMLISH), max_size=25))
def test_any_text_is_parsed_or_a_value_error(pieces: list[str]) -> None:
    try:
        fields = parse(block("".join(pieces)))
    except ValueError as error:
        assert str(error).startswith("it")  # noqa: PT017 - most of these are invalid
    else:
        assert isinstance(fields, dict)
