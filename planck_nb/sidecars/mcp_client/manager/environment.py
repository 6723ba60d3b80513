"""The environment for a project's own sidecar.

That is a folder with a pyproject.toml, such as `.planck/sidecar`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import filelock

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import SidecarError
from planck_nb.base.file_locks import refuses_locks
from planck_nb.base.programs import find_program
from planck_nb.base.text import one_line
from planck_nb.base.threads import run_in_thread
from planck_nb.base.version import __version__
from planck_nb.sidecars.mcp_client.sidecar_spec import PROJECT_NAME, SidecarSpec
from planck_nb.sidecars.mcp_client.transports.child_environment import installer_environment
from planck_nb.sidecars.mcp_client.transports.child_process import ChildProcess
from planck_nb.sidecars.mcp_client.transports.lines import LineCutter
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines

REQUIREMENTS = ("mcp>=2.3,<3",)
"""Requirements besides planck_nb and the project's own."""

PACKAGE = Path(__file__).parents[3]
"""planck_nb's folder."""

_FORMAT = "2"
"""Part of the digest, increased when environments are built differently."""

_MAX_PROJECT_BYTES = 1_048_576
_LINE_BYTES = 10_000
_LAST_LINES = 8
_LAST_CHARACTERS = 1_500
_LOCK_SECONDS = 0.3
_BUILD_SECONDS = 1_800.0
_MERGED = 'exec "$@" 2>&1'


def _ignore(_line: str) -> None:
    """Ignore progress."""


class SidecarEnvironment:
    """A sidecar's environment, `.venv` in its folder.

    It has the project's requirements, `mcp` and the kernel's planck_nb.

    The project is installed so that a changed source file is used without building again. It is built again only after
    changes to its pyproject.toml, its lock file or planck_nb. uv installs the versions in `uv.lock`, if it exists.
    planck_nb is copied from the kernel's own files, without its dependencies: so it is exactly the kernel's version,
    needs no package index, and the sidecar's other packages are the project's own. Commands under `setup` in
    `[tool.planck_nb.sidecar]`, such as `[["npm", "ci"]]`, run last.

    Args:
        folder: The sidecar's folder.
        environment: The kernel's environment; installers get only its proxies, certificates, and settings for pip and
            uv. `os.environ` by default.
        requirements: Packages to install besides the project.
        uv: The program uv, empty for pip; by default uv if it is installed.

    Example:
        >>> SidecarEnvironment(Path("/project/.planck/sidecar")).is_current()
        False
    """

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        requirements: Sequence[str] = REQUIREMENTS,
        uv: str | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self._environment = os.environ if environment is None else environment
        self._requirements = tuple(requirements)
        self._uv = (find_program("uv", search_path=self._environment.get("PATH", "")) or "") if uv is None else uv
        self._venv = self.folder / ".venv"
        self._lock = self.folder / "uv.lock"
        self._mark = self._venv / "planck_nb.digest"

    @property
    def python(self) -> Path:
        """Return the environment's Python."""
        return self._venv / "bin" / "python"

    def spec(self, name: str = PROJECT_NAME) -> SidecarSpec:
        """Return how to start the sidecar, with its project's entry point.

        Args:
            name: The sidecar's name.
        """
        return SidecarSpec(
            name,
            command=str(self.python),
            args=("-m", "planck_nb.sidecars"),
            cwd=self.folder,
            source=self.folder / "pyproject.toml",
        )

    def is_current(self) -> bool:
        """Return whether the environment is built and up to date."""
        try:
            return (
                not self._venv.is_symlink()
                and self.python.exists()
                and self._mark.read_text(encoding="ascii") == self.digest()
            )
        except (OSError, SidecarError):
            return False

    def digest(self) -> str:
        """Return the digest for everything behind the environment.

        Raises:
            SidecarError: If the folder has no readable pyproject.toml.
        """
        content = [_FORMAT, sys.executable, *self._requirements, self._read_project()]
        content.append(self._lock.read_text("utf-8", "replace") if self._lock.is_file() else "")
        content.extend(f"{path} {status}" for path, status in _package_files())
        return hashlib.sha256("\0".join(content).encode("utf-8", "replace")).hexdigest()

    async def build(self, progress: Callable[[str], None] = _ignore) -> None:
        """Build the environment unless it is up to date.

        Cancelling this ends everything started by it.

        Args:
            progress: Called with each line from the installers.

        Raises:
            SidecarError: If it cannot be built; the message has the last lines of output.
        """
        digest = await run_in_thread(self.digest)
        async with self._locked(progress):
            if await run_in_thread(self.is_current):
                return
            if self._uv:
                await run_in_thread(self._check_parents)
            await run_in_thread(self._remove)
            for step in (self._create, self._install, self._set_up):
                await asyncio.wait_for(step(progress), _BUILD_SECONDS)
            await run_in_thread(lambda: write_atomically(self._mark, digest.encode()))

    def _check_parents(self) -> None:
        """Refuse uv settings in the folders above, where agents' commands write.

        With them, uv would install other packages under the same names, and run their code.
        """
        tool = tomllib.loads(self._read_project()).get("tool", {})
        if isinstance(tool, dict) and isinstance(uv := tool.get("uv"), dict) and "workspace" in uv:
            return
        for parent in self.folder.parents:
            if (parent / "uv.toml").exists() or _has_uv_settings(parent / "pyproject.toml"):
                raise SidecarError(
                    f"uv would follow the settings in {parent}; add the line [tool.uv.workspace] to "
                    f"{self.folder / 'pyproject.toml'}."
                )

    def _remove(self) -> None:
        if self._venv.is_symlink():  # to a folder where commands write
            self._venv.unlink()
        shutil.rmtree(self._venv, ignore_errors=True)

    async def _create(self, progress: Callable[[str], None]) -> None:
        if self._uv:
            await self._run([self._uv, "venv", "--no-progress", str(self._venv)], progress)
        else:
            await self._run([sys.executable, "-m", "venv", str(self._venv)], progress)
        progress(f"planck_nb {__version__} is copied from the kernel")
        await run_in_thread(lambda: _copy_package(self._venv))

    async def _install(self, progress: Callable[[str], None]) -> None:
        if self._lock.is_file() and self._uv:
            # Without --inexact uv would remove the copy of planck_nb, which projects do not name.
            await self._run([self._uv, "sync", "--locked", "--inexact", "--no-dev", "--no-progress"], progress)
            packages = list(self._requirements)
        else:
            if self._lock.is_file():
                progress("uv.lock is not used, because uv is not installed; the newest versions are installed")
            packages = ["-e", ".", *self._requirements]
        if not packages:
            return
        if self._uv:
            command = [self._uv, "pip", "install", "--no-progress", "--python", str(self.python), *packages]
        else:
            quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
            command = [str(self.python), "-m", "pip", "install", *quiet, *packages]
        await self._run(command, progress)

    async def _set_up(self, progress: Callable[[str], None]) -> None:
        settings = tomllib.loads(self._read_project()).get("tool", {}).get("planck_nb", {}).get("sidecar", {})
        commands = settings.get("setup", []) if isinstance(settings, dict) else []
        if not isinstance(commands, list) or not all(_is_command(item) for item in commands):
            raise SidecarError(
                f"`setup` in {self.folder / 'pyproject.toml'} must be a list of commands, each a list of strings, such "
                'as [["npm", "ci"]].'
            )
        for command in commands:
            await self._run(command, progress)

    async def _run(self, command: Sequence[str], progress: Callable[[str], None]) -> None:
        """Run a command in the folder.

        Raises `SidecarError` with its last lines after a failure.
        """
        log = LogLines()
        process = await ChildProcess.start(
            self.folder.name,
            ["/bin/sh", "-c", _MERGED, "sh", *command],
            cwd=self.folder,
            environment=installer_environment(self._environment),
            log=log,
        )
        try:
            process.input.close()
            cutter = LineCutter(_LINE_BYTES)
            while chunk := await process.output.read(65_536):
                for line in cutter.feed(chunk):
                    text = line if isinstance(line, bytes) else line.head
                    log.feed(text + b"\n")
                    progress(log.lines(1)[-1])
            log.feed(cutter.rest())
            await asyncio.wait([process.ended])
        finally:
            await process.stop(0)
        if process.status:
            words = " ".join(command)
            last = one_line(" / ".join(log.lines(_LAST_LINES)), _LAST_CHARACTERS)
            raise SidecarError(
                f"The environment of the sidecar in {self.folder} could not be built: `{one_line(words, 200)}` ended "
                f"with status {process.status}: {last}"
            )

    def _read_project(self) -> str:
        path = self.folder / "pyproject.toml"
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_PROJECT_BYTES + 1)
            text = content.decode("utf-8")
            tomllib.loads(text)
        except FileNotFoundError:
            raise SidecarError(
                f"The sidecar in {self.folder} has no pyproject.toml; write one, or a new sidecar with "
                "`planck-nb new sidecar NAME`."
            ) from None
        except (OSError, ValueError) as error:
            raise SidecarError(f"{path} cannot be read: {one_line(str(error), 200)}; correct it.") from error
        return text

    @asynccontextmanager
    async def _locked(self, progress: Callable[[str], None]) -> AsyncIterator[None]:
        """Let only one kernel build at a time."""
        path = self.folder / ".venv.lock"
        lock = filelock.FileLock(path, thread_local=False)
        if refuses_locks(path):
            lock = filelock.SoftFileLock(path.with_suffix(".lock.held"), thread_local=False)
        waited = False
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except filelock.Timeout:
                if not waited:
                    progress("another kernel is building this environment")
                waited = True
                await asyncio.sleep(_LOCK_SECONDS)
            except OSError as error:
                raise SidecarError(
                    f"The environment in {self.folder} cannot be written ({error.strerror}); make it writable."
                ) from error
        try:
            yield
        finally:
            lock.release()


def _is_command(item: object) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(word, str) for word in item)


def _package_files() -> list[tuple[str, str]]:
    """Return planck_nb's files, with their sizes and times."""
    root = PACKAGE
    files = []
    for path in sorted(root.rglob("*")):
        if "__pycache__" not in path.parts and path.is_file():
            status = path.stat()
            files.append((path.relative_to(root).as_posix(), f"{status.st_size} {status.st_mtime_ns}"))
    return files


def _copy_package(venv: Path) -> None:
    """Copy planck_nb, with metadata for installers but without requirements."""
    site = next(iter(sorted(venv.glob("lib/python*/site-packages"))), None)
    if site is None:
        raise SidecarError(f"{venv} has no folder for packages; remove it and start the sidecar again.")
    root, name, version = PACKAGE, "planck_nb", __version__
    shutil.copytree(root, site / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    information = site / f"{name}-{version}.dist-info"
    information.mkdir()
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: planck-nb\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: planck_nb\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "INSTALLER": "planck_nb\n",
    }
    for file, content in files.items():
        (information / file).write_text(content, encoding="utf-8")
    paths = [f"{name}/{path}" for path, _ in _package_files()]
    paths += [f"{information.name}/{file}" for file in (*files, "RECORD")]
    (information / "RECORD").write_text("".join(f"{path},,\n" for path in paths), encoding="utf-8")


def _has_uv_settings(file: Path) -> bool:
    try:
        with file.open("rb") as source:
            tool = tomllib.loads(source.read(_MAX_PROJECT_BYTES).decode()).get("tool", {})
    except OSError:
        return False
    except ValueError:
        return True
    return isinstance(tool, dict) and "uv" in tool
