"""The parts of network addresses that rules compare."""

from __future__ import annotations

import pytest

from planck_nb.agent.approval.addresses import AddressPattern, address


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("HTTPS://Host.Example.:8080/Path?q#f", ("https", "host.example", ":8080", "/Path?q#f")),
        ("host", ("", "host", "", "")),
        ("http://user:word@host/", ("http", "host", "", "/")),
        ("[::1]:80", ("", "[::1]", ":80", "")),
        ("host:*", ("", "host", ":*", "")),
        ("", None),
        ("http://:80/", None),
        ("a:1:2", None),
        ("http://a:b/", None),
        ("http://a/../b", None),
        ("http://a/%2E%2e/b", None),
        ("http://a\\@b", None),
        ("a b", None),
    ],
)
def test_an_address_has_parts_unless_programs_may_disagree(text: str, parts: tuple[str, ...] | None) -> None:
    assert address(text) == parts


@pytest.mark.parametrize(
    ("pattern", "target", "covers", "may_catch"),
    [
        ("*.example.com", "https://a.example.com:80/x", True, True),
        ("*.example.com", "example.com", False, False),
        ("https://a/x/*", "https://a/x/y", True, True),
        ("https://a/x/*", "a", False, True),
        ("https://a:1", "https://a", False, True),
        ("a:*", "a:5", True, True),
        ("https://a[1]/?", "https://a1/x", False, False),
        ("a:1:2", " a:1:2 ", True, True),
        ("a:1:2", "a", False, True),
        ("a", "a:1:2", False, True),
    ],
)
def test_a_pattern_covers_and_may_catch(pattern: str, target: str, *, covers: bool, may_catch: bool) -> None:
    assert (AddressPattern(pattern).covers(target), AddressPattern(pattern).may_catch(target)) == (covers, may_catch)
