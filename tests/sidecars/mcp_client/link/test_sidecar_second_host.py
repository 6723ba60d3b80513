"""A sidecar on a second host: a network namespace, or where none can be made another address of this machine."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.sidecar_links import SERVERS

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[3]
UNAVAILABLE = 77
NAMESPACES = [["unshare", "-n"], ["unshare", "-U", "-r", "-n"]]
"""As root, and as another user where the system allows that."""


def run(folder: Path, enter: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    command = [*enter, sys.executable, str(SERVERS / "second_host.py"), sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def other_address() -> str:
    """An address of this machine that is not on the loopback interface, empty if there is none."""
    found = (
        item.address
        for items in psutil.net_if_addrs().values()
        for item in items
        if item.family is socket.AF_INET and not ipaddress.ip_address(item.address).is_loopback
    )
    return next(found, "")


@pytest.mark.timeout(240)
def test_a_sidecar_on_a_second_host_needs_the_token_and_its_own_name(tmp_path: Path) -> None:
    namespaces = NAMESPACES if shutil.which("unshare") and shutil.which("ip") and shutil.which("nsenter") else []
    for enter in namespaces:
        done = run(tmp_path, enter)
        if done.returncode != UNAVAILABLE and not done.stderr.startswith("unshare:"):
            break
    else:
        address = other_address()
        if not address:
            pytest.skip("No network namespace can be made here, and this machine has the loopback address only.")
        enter, done = [], run(tmp_path, [], address)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    if enter:
        assert results["url"].startswith("http://192.0.2.2:")
        assert results["with the token"] == "lo sidecar0"  # the devices of the other host: nothing else is in reach
    else:
        assert "lo" in results["with the token"].split()
    assert (
        "so the sidecar needs a token: set the variable PLANCK_NB_SIDECAR_TOKEN" in results["sidecar without a token"]
    )
    for which in ("without", "wrong token"):
        assert results[which] == "The sidecar there rejected the credentials (HTTP 401); give it the right token."
    assert "does not accept this host name (HTTP 421)" in results["wrong host"]
    assert "HTTP 403" in results["wrong origin"]
