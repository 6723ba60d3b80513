"""The listing for a decision about trust."""

from __future__ import annotations

from pathlib import Path

from planck_nb.config import TrustItem
from planck_nb.jupyter.display.trust_listing import TrustListing
from planck_nb.workspace.folder_files import TrustedFile


def listing(*names: str) -> TrustListing:
    items = [TrustItem.of("sidecar", Path(f"/p/{name}"), b"", [("command", "run")], name=name) for name in names]
    return TrustListing([TrustedFile(item, "new") for item in items], Path("/p"))


def test_a_rule_is_between_two_things_only() -> None:
    assert listing("one", "two", "three")._repr_html_().count("border-bottom") == 2
    assert "border-bottom" not in listing("one")._repr_html_()


def test_a_projects_own_sidecar_has_its_name_once() -> None:
    assert repr(listing("sidecar")).startswith("sidecar: not trusted\n")
    assert repr(listing("desk")).startswith("sidecar desk: not trusted\n")
