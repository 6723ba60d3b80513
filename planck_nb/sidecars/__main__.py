"""Serve a sidecar: `python -m planck_nb.sidecars [MODULE[:NAME]] [--http HOST:PORT]`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence

from planck_nb.base.errors import PlanckError
from planck_nb.sidecars.author.listening_address import ListeningAddress, checked_token
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.parent_watch import end_now
from planck_nb.sidecars.conventions import TOKEN_VARIABLE

_USAGE_ERROR = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a sidecar until its client has gone, then end the process.

    Args:
        arguments: The command line; by default this process's own.
    """
    parser = argparse.ArgumentParser(
        prog="python -m planck_nb.sidecars",
        description="Serve a sidecar over standard input and output, or over HTTP.",
        epilog=f"Over HTTP, clients must send the token that is in the variable {TOKEN_VARIABLE}.",
    )
    parser.add_argument(
        "module", nargs="?", help="MODULE:NAME or MODULE; by default the entry point of the group planck_nb.sidecars"
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="listen there, at the path /mcp")
    parser.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="another host name by which clients reach it"
    )
    options = parser.parse_args(arguments)
    code = 0
    try:
        asyncio.run(_serve(options.module, options.http, options.allow_host))
    except PlanckError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command
        code = _USAGE_ERROR
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BaseException:  # noqa: BLE001 - such as a pipe which broke because the client was killed
        traceback.print_exc()
        code = 1
    # Whatever happened: blocked threads do not keep this process alive, and its children are killed.
    end_now(code)


async def _serve(module: str | None, http: str | None, names: Sequence[str]) -> None:
    folder = os.getcwd()  # noqa: PTH109 - entries of sys.path are strings
    # Last, so that no file in it replaces an installed module or one of Python's own.
    sys.path[:] = [*(path for path in sys.path if path not in ("", folder)), folder]
    if http is None:
        from planck_nb.sidecars.author.stdio import serve_stdio  # noqa: PLC0415 - mcp takes a while

        await serve_stdio(LiveOffer(module))
        return
    address = ListeningAddress.parse(http, names)
    token = checked_token(os.environ.get(TOKEN_VARIABLE), address)
    from planck_nb.sidecars.author.http import serve_http  # noqa: PLC0415 - as above

    await serve_http(LiveOffer(module), address, token)


if __name__ == "__main__":
    main()
