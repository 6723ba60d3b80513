"""A Dask cluster in its own process, with an empty environment."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.base.errors import ConfigError

if TYPE_CHECKING:
    from distributed.security import Security

_KEPT = frozenset(
    {"PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}
    | {"https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
"""Variables for the start, and for the way to servers."""

_LOOK_SECONDS = 5.0
"""Time between two looks for missing workers."""


class ClusterProcess:
    """A cluster whose process ends with this one.

    Args:
        workers: The number of workers.
    """

    def __init__(self, workers: int) -> None:
        environment = {name: value for name, value in os.environ.items() if name in _KEPT}
        paths = os.pathsep.join(path for path in sys.path if path and Path(path).is_dir())
        self._process = subprocess.Popen(  # noqa: S603 - this module
            [sys.executable, "-m", __name__, str(workers)],
            env={**environment, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the kernel's SIGINT is for its cell
        )

    def address(self) -> tuple[str, Security]:
        """Wait for the cluster; return its address and certificates."""
        from distributed.security import Security  # noqa: PLC0415 - in the extra `dask`

        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            self.close()
            raise ConfigError("The Dask cluster did not start; run `%pip install 'planck-nb[dask]'` and try again.")
        certificates = json.loads(line)
        return certificates.pop("address"), Security(require_encryption=True, **certificates)

    def close(self) -> None:
        """End the cluster."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


async def _serve(workers: int) -> None:
    """Run a cluster until the input, or the parent process, ends."""
    import dask  # noqa: PLC0415 - as above
    from distributed import LocalCluster  # noqa: PLC0415
    from distributed.security import Security  # noqa: PLC0415

    # Dask starts servers for its pages even without a dashboard; these have nothing to show.
    dask.config.set({f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")})
    security = Security.temporary()
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        security=security,
        protocol="tls://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=False,
        asynchronous=True,
    )
    async with cluster:
        names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
        access = {"address": cluster.scheduler_address, **{name: getattr(security, name) for name in names}}
        sys.stdout.write(json.dumps(access) + "\n")
        sys.stdout.flush()
        end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        while not (await asyncio.wait([end], timeout=_LOOK_SECONDS))[0]:
            cluster.scale(workers)  # Dask gives up workers that need long for a restart


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
