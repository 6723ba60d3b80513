"""The operating system's sandbox for commands: bubblewrap, if it works on this system.

In it a command sees the file system read-only except for its working directory, has a `/tmp` and caches of its own,
sees no other processes, and has no network. Files that contain secrets are hidden. What was granted to the command is
added.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from planck_nb.agent.approval.sandbox_access import VARIABLE, SandboxAccess
from planck_nb.base.errors import ToolError
from planck_nb.base.programs import find_program
from planck_nb.tools.guarded_paths import GuardedPaths
from planck_nb.tools.no_links import LinkInPathError, open_folder, status_of
from planck_nb.tools.sandbox_mounts import Mounts, mounts

SandboxMode: TypeAlias = Literal["auto", "off", "required"]

MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)

DEFAULT_SANDBOX: SandboxMode = "auto"

_PROBE_SECONDS = 10.0

_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
"""What root needs in a folder that belongs to another user, as in many containers."""

_ISOLATED = (
    "--unshare-pid",
    "--as-pid-1",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
)
_PROC = ("--proc", "/proc", "--remount-ro", "/proc")
"""Otherwise root could write the settings of the kernel in /proc/sys."""

_DENIED_FILES = re.compile(r"Read-only file ?system|\[Errno 30\]|\bEROFS\b", re.IGNORECASE)
_DENIED_NETWORK = re.compile(
    r"Network is unreachable|Could not resolve|Temporary failure in name resolution|Name or service not known"
    r"|nodename nor servname|\bENETUNREACH\b|\bEAI_AGAIN\b|\bENOTFOUND\b|dns error|no such host"
    r"|Connection refused|ECONNREFUSED",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Bubblewrap as it works on this system.

    Args:
        program: The path of `bwrap`.
        options: The options that create the namespaces.
    """

    program: str
    options: tuple[str, ...]

    def arguments(
        self,
        cwd: Path,
        guard: GuardedPaths,
        access: SandboxAccess,
        environment: Mapping[str, str],
        *,
        readable: Sequence[Path] = (),
    ) -> list[str]:
        """Return the words that go before a command to run it in the sandbox.

        Args:
            cwd: The folder in which the command runs.
            guard: The folder that it may change, and what it may not change in it.
            access: What this command may reach beyond the sandbox.
            environment: Its environment.
            readable: Paths that it may read although they are in a folder that is empty in the sandbox.
        """
        network = () if access.network else ("--unshare-net",)
        begin = [self.program, "--ro-bind", "/", "/", "--dev", "/dev", *self.options, *network]
        plan = mounts(guard, access, environment, readable)
        return [*begin, *plan.options, "--chdir", str(cwd.resolve()), "--", *_checking(plan)]


def find_sandbox(writable: Sequence[Path] = ()) -> Sandbox | None:
    """Return the sandbox that works here, None if none does. It is tried once per process.

    Args:
        writable: Folders where commands can write, besides the working directory; `bwrap` there is not used.
    """
    program = find_program("bwrap", writable=writable) if sys.platform == "linux" else None
    return _first_working(program, os.geteuid()) if program else None


def is_sandbox_known() -> bool:
    """Return whether a sandbox is known to work.

    Unlike `find_sandbox`, this never starts a process.
    """
    program = find_program("bwrap") if sys.platform == "linux" else None
    return program is not None and _working.get((program, os.geteuid())) is not None


def require_sandbox(writable: Sequence[Path] = ()) -> Sandbox:
    """Return the sandbox that works here, like `find_sandbox`.

    Raises:
        ToolError: No sandbox works here.
    """
    sandbox = find_sandbox(writable)
    if sandbox is None:
        raise ToolError(f"The command was not run: sandbox is 'required', but {why_none()}.")
    return sandbox


def why_none() -> str:
    """Return why there is no sandbox, and what to do, as the end of a sentence."""
    if sys.platform != "linux":
        return "there is none for this system; set sandbox to 'auto' to run commands without one"
    if find_program("bwrap") is None:
        return "bubblewrap (bwrap) is not installed outside this folder; install it, or set sandbox to 'auto'"
    return (
        "bubblewrap does not work here, because user namespaces are not allowed; allow them, or set sandbox to 'auto'"
    )


def denial(output: str, writable: Path, access: SandboxAccess) -> str:
    """Return a sentence for the output of a failed command if the sandbox may be the reason, else ""."""
    files, network = _DENIED_FILES.search(output), not access.network and _DENIED_NETWORK.search(output)
    if not files and not network:
        return ""
    limits = f"writes only below {writable} and in its own /tmp" + ("" if access.network else ", and has no network")
    more = "write:/absolute/folder" if files else "network"
    request = f"begin the command with {VARIABLE}={more} to request more"
    return f"This may be due to the sandbox: a command in it {limits}; {request}."


def candidates(user: int) -> list[tuple[str, ...]]:
    """Return the sets of options to try, in this order, for this user id: where one fails, the next may work.

    In a container, `--proc` may be refused; other processes are then listed, but neither readable nor killable.
    """
    own = ("--cap-drop", "ALL", *(word for name in _CAPABILITIES for word in ("--cap-add", name)))
    new_user = ("--unshare-user", "--cap-drop", "ALL")
    identities = [*([own] if user == 0 else []), (*new_user, "--disable-userns"), new_user]
    return [(*_ISOLATED, *identity, *proc) for proc in (_PROC, ()) for identity in identities]


_MOUNTED = r"""
(
  set -f
  IFS='
'
  found=$IFS
  for line in $(cat /proc/self/mountinfo); do
    place=${line#* * * * }
    place=${place%% *}
    case $0 in *"$IFS$place$IFS"*) ;; *) case $place in /dev | /dev/* | /proc | /proc/*) ;; *) exit 1 ;; esac ;; esac
    found=$found$place$IFS
  done
  for place in $1; do
    case $found in *"$IFS$place$IFS"*) ;; *) exit 1 ;; esac
  done
  [ -z "$3" ] || [ "$(stat -c %d:%i -- $3)" = "$2" ]
) || {
  echo 'Another command changed this folder while the sandbox was made; make the call again.' >&2; exit 126; }
shift 3
exec "$@"
"""
"""A script which compares a sandbox's mounts with the plan.

Bubblewrap follows links. A command which runs at the same time could put one where a mount is made, and have another
folder mounted or its files left unprotected.
"""


def _checking(plan: Mounts) -> list[str]:
    """Return the words which check the mounts before a command.

    Raises:
        ToolError: A path leads through a link which was not there before.
    """
    outside: list[str] = []
    with suppress(OSError):
        outside = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    try:
        identities = [_identity(path) for path in plan.checked]
    except OSError as error:
        raise ToolError(f"The command was not run: {error.strerror}.") from error
    mount_lines = _lines(["/", *outside, *map(_escaped, plan.places)])
    paths = "\n".join(map(str, plan.checked))
    if paths.count("\n") > max(len(plan.checked) - 1, 0):
        raise ToolError("The command was not run: the name of a folder contains a line end; rename it.")
    checked_lines = _lines(map(_escaped, plan.checked))
    return ["/bin/sh", "-c", _MOUNTED, mount_lines, checked_lines, "\n".join(identities), paths]


def _lines(texts: Iterable[str]) -> str:
    return "".join(["\n", *(f"{text}\n" for text in texts)])


def _identity(path: Path) -> str:
    """Return a file's device and number, without following links."""
    with open_folder(path.parent) as folder:
        status = status_of(path.name or ".", folder, path)
    if status is None:
        raise LinkInPathError(path)
    return f"{status.st_dev}:{status.st_ino}"


def _escaped(path: Path) -> str:
    """Return a path as the list of mounts has it."""
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", str(path))


_working: dict[tuple[str, int], Sandbox | None] = {}
"""The sandbox that works, by program and user id."""


def _first_working(program: str, user: int) -> Sandbox | None:
    if (program, user) not in _working:
        sandboxes = (Sandbox(program, options) for options in candidates(user))
        _working[program, user] = next(filter(_works, sandboxes), None)
    return _working[program, user]


def _works(sandbox: Sandbox) -> bool:
    words = sandbox.arguments(Path("/"), GuardedPaths(Path("/tmp")), SandboxAccess(), {})  # noqa: S108 - it writes nothing
    try:
        done = subprocess.run(  # noqa: S603 - the program was found in PATH
            [*words, "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
