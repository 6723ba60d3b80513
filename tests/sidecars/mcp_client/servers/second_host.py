"""A kernel and a sidecar on two hosts, which are network namespaces: `python second_host.py PYTHON [ADDRESS]`.

To be run in a network namespace of its own, which is the kernel's host. The sidecar's is another one, and a pair of
virtual devices connects the two; nothing else is in reach. With an address, no namespaces are made and the sidecar
listens there. Prints what happened as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from support.sidecar_links import FAST

from planck_nb.base.errors import SidecarError
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

HERE, THERE = "192.0.2.1", "192.0.2.2"
TOKEN = "the-token-of-the-second-host"
UNAVAILABLE = 77


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def connect_hosts(other: int) -> None:
    """Give the process `other` a device in its namespace, connected with one in this."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "kernel0", "type", "veth", "peer", "name", "sidecar0", "netns", str(other))
    ip("addr", "add", f"{HERE}/30", "dev", "kernel0")
    ip("link", "set", "kernel0", "up")
    for words in (["addr", "add", f"{THERE}/30", "dev", "sidecar0"], ["link", "set", "sidecar0", "up"]):
        subprocess.run(["nsenter", "-t", str(other), "-n", "ip", *words], check=True, capture_output=True)


async def outcome(spec: SidecarSpec) -> str:
    """What a link does with a spec."""
    link = SidecarLink(spec, timing=FAST)
    try:
        await link.start()
        return (await link.call("where", {})).text
    except SidecarError as error:
        return str(error)
    finally:
        await link.stop()


async def main(python: str, address: str) -> None:
    folder = Path.cwd()
    (folder / "there.py").write_text(
        "import socket\nfrom planck_nb.sidecars import Sidecar\nsidecar = Sidecar('there')\n\n@sidecar.tool\n"
        "async def where() -> str:\n    return ' '.join(sorted(name for _, name in socket.if_nameindex()))\n"
    )
    enter: list[str] = []
    holder = None
    if not address:
        holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 300"], stdout=subprocess.PIPE)  # noqa: ASYNC220 - nothing else runs yet
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            connect_hosts(holder.pid)
        except (OSError, subprocess.CalledProcessError) as error:
            holder.kill()
            print(f"no namespaces: {error}", file=sys.stderr)
            sys.exit(UNAVAILABLE)
        enter, address = ["nsenter", "-t", str(holder.pid), "-n"], THERE
    serve = [*enter, python, "-m", "planck_nb.sidecars", "there", "--http", f"{address}:0"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"], "HOME": str(folder)}
    try:
        unsafe = await asyncio.create_subprocess_exec(*serve, env=environment, stderr=asyncio.subprocess.PIPE)
        results = {"sidecar without a token": (await unsafe.communicate())[1].decode()}
        server = await asyncio.create_subprocess_exec(
            *serve, env={**environment, "PLANCK_NB_SIDECAR_TOKEN": TOKEN}, stderr=asyncio.subprocess.PIPE
        )
        assert server.stderr is not None
        found = re.search(r"http://\S+", (await server.stderr.readline()).decode())
        assert found
        url = found.group()
        results |= {
            "url": url,
            "with the token": await outcome(SidecarSpec("there", url=url, token=TOKEN)),
            "without": await outcome(SidecarSpec("there", url=url)),
            "wrong token": await outcome(SidecarSpec("there", url=url, token="another-token-of-a-host")),
            "wrong host": await outcome(
                SidecarSpec("there", url=url, token=TOKEN, headers={"Host": "rebound.example:80"})
            ),
            "wrong origin": await outcome(
                SidecarSpec("there", url=url, token=TOKEN, headers={"Origin": "http://rebound.example"})
            ),
        }
        server.terminate()
        await server.wait()
    finally:
        if holder is not None:
            holder.kill()
    print(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *sys.argv[2:] or [""]))
