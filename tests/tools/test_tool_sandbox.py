"""Commands in the sandbox: what they cannot do, what they can, and what is granted to them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from support.agents import plain
from support.evidence import missing
from support.sleepers import long_sleep, still_running

from planck_nb import Agent, BuiltinTools, ExternalTool, Tool, ToolError
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.approval.sandbox_access import SandboxAccess
from planck_nb.agent.approval.shell_command import ShellCommand
from planck_nb.agent.effect import Effect
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.tools.guarded_paths import GuardedPaths
from planck_nb.tools.sandbox import Sandbox, candidates, denial, find_sandbox

pytestmark = pytest.mark.process

SECRET = "TOP-" + "HIDDEN-0451"
"""What no command may print. It is put together here, so that no command line contains it."""


@pytest.fixture
def sandbox() -> Sandbox:
    found = find_sandbox()
    if found is None:
        missing("bubblewrap does not work here; install it, and allow user namespaces, to run this test.", "bubblewrap")
        raise AssertionError
    return found


@dataclass
class Place:
    """A project in a home folder with secrets, and a bystander and servers outside of the sandbox."""

    home: Path
    project: Path
    bystander: subprocess.Popen[bytes]
    tcp: socket.socket
    udp: socket.socket
    abstract: socket.socket
    long: str
    """How long a command sleeps that should not stay."""

    def variables(self) -> str:
        """Shell assignments that commands of the corpus use."""
        values = {
            "OUT": self.home / "outside",
            "KERNEL": os.getpid(),
            "BYSTANDER": self.bystander.pid,
            "PORT": self.tcp.getsockname()[1],
            "UDP": self.udp.getsockname()[1],
            "ABSTRACT": self.abstract.getsockname()[1:].decode(),
            "PYTHON": sys.executable,
            "LONG": self.long,
        }
        return "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in values.items())

    def outside(self) -> dict[str, bytes | str]:
        """Everything outside of the project that a command must not change."""
        files: dict[str, bytes | str] = {}
        for root in (self.home, self.project / ".planck"):
            for path in sorted(root.rglob("*")):
                if path.is_relative_to(self.project) and root is self.home:
                    continue
                status = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                files[str(path)] = f"{status.st_mode:o} {status.st_nlink if path.is_file() else 0} ".encode() + content
        files["temporary"] = "\n".join(str(path) for path in ESCAPED if path.exists())
        files["host"] = socket.gethostname()
        files["core"] = Path("/proc/sys/kernel/core_pattern").read_text()
        return files


ESCAPED = [Path(folder) / "planck-escape" for folder in ("/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr/local/bin", "/")]


@pytest.fixture
def place(sandbox: Sandbox) -> Iterator[Place]:
    home = Path(os.environ["HOME"])
    project = home / "project"
    for folder in ("outside", ".ssh", ".aws", ".cache", ".config/gh", "project/.planck", ".docker"):
        (home / folder).mkdir(parents=True)
    (home / ".planck").mkdir()
    for file in (
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".planck/session.key",
        "server.pem",
    ):
        (home / file).write_text(SECRET)
    (home / ".bashrc").write_text("# mine\n")
    (home / "outside/victim").write_text("untouched")
    (project / ".planck/config.toml").write_text("sandbox = 'required'\n")
    (project / "out").symlink_to(home / "outside")
    (project / "key").symlink_to(home / ".ssh/id_ed25519")
    bystander = subprocess.Popen(["sleep", "600"], env={"KEY": SECRET, "PATH": os.environ["PATH"]})
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0planck-{os.urandom(6).hex()}")
    abstract.listen()
    tcp.setblocking(False)
    udp.setblocking(False)
    abstract.setblocking(False)
    found = Place(home, project, bystander, tcp, udp, abstract, long_sleep())
    try:
        yield found
    finally:
        bystander.kill()
        bystander.wait()
        for server in (tcp, udp, abstract):
            server.close()


def python(code: str, *args: str) -> str:
    return " ".join([f'"$PYTHON" -I -S -c {shlex.quote(textwrap.dedent(code))}', *args])


PTRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name in ("BYSTANDER", "KERNEL"):
    if libc.ptrace(16, int(os.environ[name]), 0, 0) == 0: print("BREACH")
"""

READ_MEMORY = """
import os
for name in ("BYSTANDER", "KERNEL"):
    try: open(f"/proc/{os.environ[name]}/mem", "rb").seek(0x400000); print("BREACH")
    except OSError as error: print(error)
"""

TERMINAL = """
import fcntl, os, termios
for name in (0, 1, 2, "/dev/tty", "/dev/console", "/dev/pts/0"):
    try:
        file = name if isinstance(name, int) else os.open(name, os.O_RDWR)
        fcntl.ioctl(file, termios.TIOCSTI, b"x"); print("BREACH")
    except OSError as error: print(error)
"""

FORK_TWICE = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 3); time.sleep(float(sys.argv[1]))
    os._exit(0)
os.wait()
"""

CONNECT = """
import os, socket
for family, address in ((socket.AF_INET, ("127.0.0.1", int(os.environ["PORT"]))),
                        (socket.AF_INET6, ("::ffff:127.0.0.1", int(os.environ["PORT"])))):
    try: socket.socket(family).connect(address); print("BREACH")
    except OSError as error: print(error)
"""

DATAGRAM = """
import os, socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(os.environ["UDP"])))
"""

ABSTRACT = """
import os, socket
try: socket.socket(socket.AF_UNIX).connect(chr(0) + os.environ["ABSTRACT"]); print("BREACH")
except OSError as error: print(error)  # a traceback would show the line above, from Python 3.13 on
"""

SOCKETS = """
import glob, socket, stat, os
for pattern in ("/run/*", "/run/*/*", "/run/user/*/*", "/var/run/*", "/tmp/.X11-unix/*", "/tmp/*/*"):
    for path in glob.glob(pattern):
        try:
            if stat.S_ISSOCK(os.stat(path).st_mode): socket.socket(socket.AF_UNIX).connect(path); print("BREACH", path)
        except OSError as error: print(error)
"""

OPEN_BY_HANDLE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(136)
ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
mount = ctypes.c_int()
home = os.path.expanduser("~").encode()
libc.name_to_handle_at(-100, home, handle, ctypes.byref(mount), 0)
file = libc.open_by_handle_at(os.open(home, os.O_RDONLY), handle, os.O_RDONLY)
if file >= 0: print("BREACH")
"""

NEW_NAMESPACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
uid = os.getuid()
if libc.unshare(0x10000000 | 0x20000) == 0:
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {os.getgid()} 1")):
        try: open(f"/proc/self/{name}", "w").write(text)
        except OSError as error: print(error)
home = os.path.expanduser("~").encode()
libc.umount2(home + b"/.ssh", 2)
libc.mount(b"none", home, None, 0x1000 | 0x20, None)
libc.mount(b"none", b"/", None, 0x1000 | 0x20, None)
for name in (home + b"/outside/victim", b"/planck-escape"):
    try: open(name, "w").write("x"); print("BREACH")
    except OSError as error: print(error)
try: print(open(home + b"/.ssh/id_ed25519").read())
except OSError as error: print(error)
"""

SHARED_SIZE = "45107"
"""Bytes; no other process of the machine asks for so many."""

ESCAPES: dict[str, str] = {
    # writing outside of the project
    "overwrite": "echo x > $OUT/victim",
    "append": "echo x >> ~/.bashrc",
    "remove": "rm -rf ~/outside",
    "rename": "mv $OUT/victim $OUT/other",
    "rename-into-project": "mv $OUT/victim . && cat victim",
    "mode": "chmod 777 $OUT/victim",
    "owner": "chown 12345 $OUT/victim",
    "time-and-new": "touch $OUT/new ../new",
    "folder": "mkdir -p ~/.config/autostart && echo BREACH",
    "through-link": "echo x > out/victim",
    "new-link-outwards": "ln -s $OUT mine && echo x > mine/victim",
    "hard-link": "ln $OUT/victim mine && echo x > mine",
    "relative": "echo x > ../outside/victim",
    "edit-in-place": "sed -i s/un/re/ $OUT/victim",
    "truncate": "truncate -s 0 $OUT/victim",
    "dd": "dd if=/dev/zero of=$OUT/victim count=1",
    "tar": "tar cf t.tar key && tar xf t.tar -C $OUT",
    "system": "echo x > /etc/planck-escape; echo x > /usr/local/bin/planck-escape; echo x > /planck-escape",
    "root-of-process": "echo x > /proc/self/root$OUT/victim; echo x > /proc/1/root$OUT/victim",
    "root-of-kernel": "cat /proc/$KERNEL/root$HOME/.ssh/id_ed25519; echo x > /proc/$KERNEL/root$OUT/victim",
    "folder-of-parent": "cat /proc/$PPID/root$HOME/.ssh/id_ed25519 /proc/$PPID/cwd/../.ssh/id_ed25519",
    "settings-of-product": "echo x > .planck/config.toml; rm -rf .planck; mv .planck other; touch .planck/tools",
    "temporary": "echo x > /tmp/planck-escape; echo x > /var/tmp/planck-escape; echo x > /dev/shm/planck-escape",
    "cache": "mkdir -p ~/.cache/pip && echo x > ~/.cache/pip/wheel",
    # mounts and namespaces
    "remount": "mount -o remount,rw / ; mount -o remount,rw,bind $HOME; echo x > $OUT/victim",
    "bind-mount": "mount --bind $PWD $OUT && echo BREACH",
    "unmount-mask": "umount ~/.ssh; umount -l ~/.ssh; cat ~/.ssh/*",
    "unshare": "unshare -m sh -c 'mount -o remount,rw / && echo BREACH'",
    "unshare-user": (
        "unshare -Urm sh -c 'umount ~/.ssh; mount -o remount,rw,bind /; cat ~/.ssh/*; echo x > $OUT/victim'"
    ),
    "new-namespace": python(NEW_NAMESPACE),
    "nsenter": "nsenter -t $KERNEL -m sh -c 'echo BREACH'; nsenter -t 1 -a sh -c 'cat ~/.ssh/*'",
    "nested-sandbox": "bwrap --dev-bind / / sh -c 'echo x > $OUT/victim; cat ~/.ssh/*'",
    "chroot": "chroot /proc/$KERNEL/root sh -c 'echo BREACH'",
    "open-by-handle": python(OPEN_BY_HANDLE),
    "release-agent": (
        "echo /bin/true > /sys/fs/cgroup/release_agent && echo BREACH; mkdir /sys/fs/cgroup/x && echo BREACH"
    ),
    # secrets
    "ssh-key": "cat ~/.ssh/id_ed25519; ls -la ~/.ssh | grep ed25519 && echo BREACH",
    "key-of-product": "cat ~/.planck/*; cat ~/server.pem",
    "cloud-key": "cat ~/.aws/credentials ~/.config/gh/hosts.yml ~/.docker/config.json",
    "file-with-password": "cat ~/.netrc; cp ~/.netrc copy; cat copy",
    "key-through-link": "cat key; cp -L key copy; cat copy; dd if=key",
    "key-by-root": "cat /proc/self/root$HOME/.ssh/id_ed25519 /proc/self/cwd/../.ssh/id_ed25519",
    "all-of-home": "tar cf - ~ 2>/dev/null | cat; grep -r HIDDEN ~",
    "password-file": "cat /etc/shadow | grep -q root: && echo BREACH",
    # other processes
    "environment-of-parent": "cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -i API_KEY && echo BREACH",
    "environments": "cat /proc/[0-9]*/environ",
    "environment-of-bystander": "cat /proc/$BYSTANDER/environ",
    "command-lines": "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep 6[0]0' && echo BREACH",
    "kill": "kill -9 $BYSTANDER; kill -9 $KERNEL",
    "kill-all": "trap '' TERM; kill -9 -1; kill -TERM -1",
    "ptrace": python(PTRACE),
    "memory": python(READ_MEMORY),
    "priority": "renice 19 $BYSTANDER && echo BREACH",
    # processes that stay
    "double-fork": python(FORK_TWICE, "$LONG"),
    "new-session": "setsid sleep $LONG >/dev/null 2>&1 & echo begun",
    "no-hangup": "nohup sleep $LONG >/dev/null 2>&1 & disown 2>/dev/null; (sleep $LONG &)",
    "cron": "echo '* * * * * id' | crontab - && echo BREACH; echo x > /var/spool/cron/planck-escape && echo BREACH",
    "at": "echo id | at now && echo BREACH; systemd-run true && echo BREACH",
    # the network and sockets
    "connect": python(CONNECT),
    "datagram": python(DATAGRAM),
    "abstract-socket": python(ABSTRACT),
    "sockets-of-services": python(SOCKETS),
    "bash-connect": "bash -c 'exec 3<>/dev/tcp/127.0.0.1/'$PORT && echo BREACH",
    "interface": r"grep -qv 'lo:\|face\|Inter' /proc/self/net/dev && echo BREACH",
    "request-too-late": f"true; PLANCK_NB_SANDBOX_ALLOW=network {python(CONNECT)}",
    "request-of-shell": "sh -c 'PLANCK_NB_SANDBOX_ALLOW=write:$OUT touch $OUT/new'",
    # devices and privileges
    "terminal": python(TERMINAL),
    "devices": "for d in sda vda nvme0n1 mem kmsg loop-control fuse; do test -e /dev/$d && echo BREACH; done",
    "make-device": "mknod disk b 8 0 && dd if=disk of=/dev/null count=1 && echo BREACH",
    "hostname": "hostname escaped; echo escaped > /proc/sys/kernel/hostname",
    "core-pattern": "echo '|/bin/true' > /proc/sys/kernel/core_pattern; echo x > /proc/sysrq-trigger && echo BREACH",
    "core-file": "ulimit -c unlimited; cd ~ && sh -c 'kill -SEGV $$'",
    "privileges": "grep -q 'NoNewPrivs:.1' /proc/self/status || echo BREACH; su nobody -s /bin/sh -c 'echo BREACH'",
    "setuid": "cp /bin/sh mine && chmod 4755 mine; cp /bin/sh $OUT/sh && chmod 4755 $OUT/sh && echo BREACH",
    "clock": "date -s 2001-01-01 && echo BREACH",
    "modules": "modprobe dummy && echo BREACH; insmod x.ko && echo BREACH",
    "message-queues": f"ipcmk -M {SHARED_SIZE} >/dev/null; true",
}


def shared_memory() -> list[list[str]]:
    """What other processes see of the System V shared memory that a command of the corpus asks for."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    return [row for row in rows if row[3] == SHARED_SIZE]


async def output(tool: Tool, args: dict[str, object]) -> str:
    try:
        return (await tool.run({**args, "timeout": 20_000})).text
    except ToolError as error:
        return str(error)


def contacted(place: Place) -> list[str]:
    """The servers that something connected to."""
    found: set[str] = set()
    for name, server in (("tcp", place.tcp), ("abstract", place.abstract), ("udp", place.udp)):
        with suppress(BlockingIOError):
            while True:
                if name == "udp":
                    server.recv(1)
                else:
                    server.accept()[0].close()
                found.add(name)
    return sorted(found)


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("how", ["bash", "TOOL.json"])
async def test_nothing_escapes(place: Place, name: str, how: str) -> None:
    assert len(ESCAPES) >= 40
    script = f"{place.variables()}{ESCAPES[name]}"
    before, memory = place.outside(), shared_memory()
    if how == "bash":
        args: dict[str, object] = {"command": script}
        tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    else:
        (place.project / "script").write_text(script)
        tool = described(place.home.parent / "tools", "sh {{script}}", place.project)
        args = {"script": "script"}
    shown = await output(tool, args)
    assert SECRET not in shown
    assert "BREACH" not in shown
    assert place.outside() == before
    assert shared_memory() == memory
    assert place.bystander.poll() is None
    assert contacted(place) == []
    assert still_running(place.long) == []


def described(folder: Path, command: str, cwd: Path) -> Tool:
    """The tool of a TOOL.json with one argument."""
    folder.mkdir(exist_ok=True)
    properties = {"script": {"type": "string"}}
    content = {"name": "t", "description": "d", "command": command, "parameters": {"properties": properties}}
    (folder / "TOOL.json").write_text(json.dumps(content))
    return ExternalTool.from_file(folder / "TOOL.json", cwd=cwd, sandbox="required")


@pytest.mark.parametrize("folder", ["", "outside", ".ssh"])
async def test_a_call_elsewhere_writes_only_in_the_working_directory(place: Place, folder: str) -> None:
    before = place.outside()
    tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    shown = await output(tool, {"command": "touch new; echo x > victim; cat *", "cwd": str(place.home / folder)})
    assert SECRET not in shown
    assert place.outside() == before


@pytest.mark.parametrize("variable", ["JUPYTER_RUNTIME_DIR", "GNUPGHOME", "DOCKER_CONFIG"])
async def test_what_a_variable_names_is_hidden(place: Place, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, str(place.home / "elsewhere"))
    (place.home / "elsewhere").mkdir()
    (place.home / "elsewhere/kernel.json").write_text(SECRET)
    tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    assert SECRET not in await output(tool, {"command": f"cat ${variable}/*"})


async def test_secrets_stay_hidden_in_a_notebook_in_the_home_folder(place: Place) -> None:
    tool = BuiltinTools.bash(cwd=place.home, sandbox="required")
    shown = await output(tool, {"command": "echo mine > note; cat note ~/.ssh/* .aws/* .netrc; echo x > .cache/x"})
    assert "mine" in shown
    assert SECRET not in shown
    assert (place.home / "note").read_text() == "mine\n"
    assert not (place.home / ".cache/x").exists()


PYTHON = shlex.quote(sys.executable)

GIT_COMMIT = "echo x > f && git add f && git -c user.email=a@b.c -c user.name=a commit -qm first"

SERVER = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname())
print("met")
"""

WORK: dict[str, tuple[str, str]] = {
    "git": (f"git init -q . && {GIT_COMMIT} && git log --format=%s", "first\n"),
    "git-in-temporary": ("d=$(mktemp -d) && cd $d && git init -q g && test -d g/.git && echo made", "made\n"),
    "python": (f"{PYTHON} -c 'import json, ssl, sqlite3; print(6 * 7)'", "42\n"),
    "pip": (f"{PYTHON} -m pip --version | cut -d' ' -f1", "pip\n"),
    "module-beside": (
        f"echo 'x = 1' > m.py; {PYTHON} -c 'import m; print(m.x)'",
        "1\n",
    ),
    "multiprocessing": (
        f"{PYTHON} -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'",
        "[1, 2]\n",
    ),
    "files": ("mkdir -p a/b && echo x > a/b/c && mv a/b/c d && cp d e && rm d && cat e && chmod 700 e", "x\n"),
    "here-document": ("cat <<EOF > f\none\ntwo\nEOF\nwc -l < f", "2\n"),
    "pipe": ("seq 1 100 | grep 7 | sort -rn | head -1", "97\n"),
    "background": ("(echo one > f) & (echo two > g) & wait; cat f g", "one\ntwo\n"),
    "process-substitution": ("bash -c 'diff <(echo a) <(echo a) && echo same'", "same\n"),
    "make-like": ("printf 'a: b\\n\\tcp b a\\n' > Makefile; echo x > b; cp b a; test a -nt Makefile; cat a", "x\n"),
    "sockets-inside": (f"{PYTHON} -c {shlex.quote(SERVER)}", "met\n"),
    "null-and-random": ("head -c 4 /dev/urandom | wc -c; echo x > /dev/null; cat /dev/null", "4\n"),
    "terminal-size": ("test -t 0 || echo none; cat", "none\n"),
    "read-the-system": ("test -r /etc/passwd && test -x /bin/sh && test -d /usr && echo there", "there\n"),
    "status-of-part": ("false; echo $?; (exit 3); echo $?; sh -c 'kill -9 $$'; echo $?", "1\n3\n137\n"),
    "names-of-users": ("id -un >/dev/null && whoami >/dev/null && echo known", "known\n"),
    "cache": (
        'd="${XDG_CACHE_HOME:-$HOME/.cache}/tool" && mkdir -p "$d" && echo kept > "$d/f" && cat "$d/f"',
        "kept\n",
    ),
}


@pytest.mark.parametrize("name", WORK)
async def test_ordinary_work_goes_on(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    command, expected = WORK[name]
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="required")
    shown = (await tool.run({"command": command})).text
    assert shown.partition("\nSTDERR:\n")[0].partition("\nThis command")[0].endswith(expected)


async def test_statuses_and_signals_are_those_of_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="required")
    for command, said in [
        ("exit 42", "Process exited with status 42"),
        ("kill -9 $$", "Process was ended by SIGKILL (9)"),
        ("kill -TERM $$", "Process was ended by SIGTERM (15)"),
        ("nonsense", "Process exited with status 127"),
    ]:
        assert (await output(tool, {"command": command})).startswith(said)


@pytest.mark.slow
async def test_a_timeout_lets_the_command_clean_up(sandbox: Sandbox, tmp_path: Path) -> None:
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="required")
    with pytest.raises(ToolError, match=r"^Process timed out after 2500ms\nbegun\ntidy\n$"):
        await tool.run({"command": "trap 'echo tidy; exit' TERM; echo begun; sleep 30 & wait", "timeout": 2_500})


async def test_a_long_output_can_be_read_by_commands_and_not_changed(sandbox: Sandbox, tmp_path: Path) -> None:
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="required")
    shown = (await tool.run({"command": "seq 1 100000"})).text
    file = shown.partition("all of it in ")[2].partition(" ")[0]
    assert (await tool.run({"command": f"tail -1 {file}"})).text == "100000\n"
    assert "Read-only" in await output(tool, {"command": f"echo x > {file}"})
    read = await BuiltinTools.read().run({"path": file, "offset": 99_999})
    assert read.text == "100000\n"


GRANTS = [
    ("pip install httpx", SandboxAccess(network=True)),
    ("python3.11 -m pip install -q x", SandboxAccess(network=True)),
    ("pip list", SandboxAccess()),
    ("cd a && git clone https://x/y", SandboxAccess(network=True)),
    ("git -C /a pull", SandboxAccess(network=True)),
    ("git commit -m 'fetch and pull'", SandboxAccess()),
    ("git status", SandboxAccess()),
    ("FOO=1 sudo -E apt-get install -y x", SandboxAccess(network=True)),
    ("/usr/bin/curl -s x | sh", SandboxAccess(network=True)),
    ("echo curl", SandboxAccess()),
    ("grep -r 'curl ' .", SandboxAccess()),
    ("npm run build", SandboxAccess()),
    ("npm ci", SandboxAccess(network=True)),
    ("uv pip install x", SandboxAccess(network=True)),
    ("make", SandboxAccess()),
    ("PLANCK_NB_SANDBOX_ALLOW=network python fetch.py", SandboxAccess(network=True)),
    ("PLANCK_NB_SANDBOX_ALLOW='network,write:/usr' x", SandboxAccess(network=True, write=(Path("/usr"),))),
    ('PLANCK_NB_SANDBOX_ALLOW="write:/usr read:/etc" x', SandboxAccess(read=(Path("/etc"),), write=(Path("/usr"),))),
    ("PLANCK_NB_SANDBOX_ALLOW=write:relative x", SandboxAccess()),
    ("PLANCK_NB_SANDBOX_ALLOW=write:/usr/../etc x", SandboxAccess()),
    ("PLANCK_NB_SANDBOX_ALLOW=write:/no/such x", SandboxAccess()),
    ("PLANCK_NB_SANDBOX_ALLOW=write:$HOME x", SandboxAccess()),
    ("PLANCK_NB_SANDBOX_ALLOW=$(echo network) x", SandboxAccess()),
    ("echo PLANCK_NB_SANDBOX_ALLOW=network", SandboxAccess()),
    ("true; PLANCK_NB_SANDBOX_ALLOW=network x", SandboxAccess()),
    ("x" * 20_000, SandboxAccess()),
]


@pytest.mark.parametrize(("command", "expected"), GRANTS)
def test_what_a_command_needs_is_seen_in_its_text(command: str, expected: SandboxAccess) -> None:
    assert ShellCommand.parse(command).access == expected


def test_a_link_is_never_granted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert ShellCommand.parse(f"PLANCK_NB_SANDBOX_ALLOW=write:{tmp_path}/link x").access == SandboxAccess()
    assert ShellCommand.parse(f"PLANCK_NB_SANDBOX_ALLOW=write:{tmp_path} x").access == SandboxAccess(write=(tmp_path,))


async def test_what_is_granted_is_granted_to_that_command_only(place: Place) -> None:
    tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    connect = f"export PYTHON={PYTHON} PORT={place.tcp.getsockname()[1]}; {python(CONNECT)}"
    for command, expected in [
        (connect, []),
        (f"PLANCK_NB_SANDBOX_ALLOW=network true; {connect}", ["tcp"]),
        (connect, []),
    ]:
        shown = await output(tool, {"command": command})
        assert contacted(place) == expected, shown
    write = "echo new > ../outside/victim"
    request = f"write:{place.home}/outside read:{place.home}/.aws"
    asked = f'PLANCK_NB_SANDBOX_ALLOW="{request}" true; {write}; cat ~/.aws/* ~/.ssh/*'
    shown = await output(tool, {"command": asked})
    assert (place.home / "outside/victim").read_text() == "new\n"
    assert shown.count(SECRET) == 1
    assert "Read-only" in await output(tool, {"command": write})


def effects(command: str, mode: str = "auto") -> list[Effect]:
    tool = BuiltinTools.bash(cwd="/usr", sandbox=mode)  # type: ignore[arg-type]  # the three modes
    return plain(tool.touched({"command": command}))


def test_what_is_granted_is_shown_for_approval() -> None:
    assert effects("ls") == [Effect("execute", "ls")]
    assert effects("curl x") == [Effect("execute", "curl x"), Effect("network")]
    assert effects("curl x", "off") == [Effect("execute", "curl x")]
    command = 'PLANCK_NB_SANDBOX_ALLOW="write:/usr read:/etc" x'
    assert effects(command) == [Effect("execute", command), Effect("read", "/etc"), Effect("write", "/usr")]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], "ask"),
        ([("allow", "bash")], "allow"),
        ([("allow", "bash:git *")], "allow"),
        ([("allow", "bash:git clone x")], "allow"),
        ([("allow", "execute")], "ask"),
        ([("allow", "execute"), ("allow", "network")], "allow"),
        ([("allow", "bash:git *"), ("deny", "network")], "deny"),
        ([("allow", "bash:git *"), ("deny", "network:example.com")], "ask"),
        ([("deny", "network"), ("allow", "bash")], "deny"),
    ],
)
def test_a_rule_for_the_command_allows_its_network(rules: list[tuple[str, str]], expected: str) -> None:
    policy = Policy(root=Path("/usr"), rules=tuple(Rule.parse(action, text) for action, text in rules))  # type: ignore[arg-type]
    assert policy.decide("bash", effects("git clone x"), {}).action == expected


def test_always_is_enough_for_the_same_command() -> None:
    policy = Policy(root=Path("/usr"))
    policy = policy.with_rule(policy.remembering("bash", effects("git clone x")))
    assert policy.decide("bash", effects("git clone x"), {}).action == "allow"
    assert policy.decide("bash", effects("git clone y"), {}).action == "ask"


async def test_the_network_waits_for_approval(place: Place) -> None:
    command = f"PLANCK_NB_SANDBOX_ALLOW=network {PYTHON} -c pass"
    script: list[Reply | str] = [Reply(calls=[Call("bash", {"command": command})]), "done"]
    policy = Policy(root=place.project, rules=(Rule.parse("allow", "execute"),))
    tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    agent = Agent(model=scripted_model(script), tools=[tool], approvals=Approvals(policy))
    asked: list[tuple[Effect, ...]] = []
    async for event in agent.prompt("go"):
        if event.type == "approval_request":
            asked.append(event.touches)
            agent.decide(event.id, allow=True)
    assert asked == [(Effect("execute", command), Effect("network"))]


async def test_a_denial_names_the_sandbox_and_what_to_do(place: Place) -> None:
    tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    shown = await output(tool, {"command": "touch ../outside/new"})
    assert shown.endswith(
        f"\nThis may be due to the sandbox: a command in it writes only below {place.project} and in its own /tmp, and "
        "has no network; begin the command with PLANCK_NB_SANDBOX_ALLOW=write:/absolute/folder to request more."
    )
    offline = f"{PYTHON} -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'"
    assert "PLANCK_NB_SANDBOX_ALLOW=network to request" in await output(tool, {"command": offline})
    for command in ("false", "cat missing", "echo Read-only file system"):
        assert "sandbox" not in await output(tool, {"command": command})


@pytest.mark.parametrize(
    ("said", "network", "request_"),
    [
        ("touch: cannot touch 'x': Read-only file system", False, "write:"),
        ("OSError: [Errno 30] x", True, "write:"),
        ("curl: (6) Could not resolve host: a", False, "=network"),
        ("[Errno -3] Temporary failure in name resolution", False, "=network"),
        ("connect: Network is unreachable", False, "=network"),
        ("getaddrinfo ENOTFOUND a", False, "=network"),
        ("Could not resolve host: a", True, ""),
        ("syntax error", False, ""),
        ("Permission denied", False, ""),
    ],
)
def test_denials(said: str, network: bool, request_: str) -> None:
    sentence = denial(said, Path("/p"), SandboxAccess(network=network))
    assert request_ in sentence
    assert bool(sentence) == bool(request_)
    assert "\n" not in sentence


async def test_required_without_a_sandbox_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as failure:
        await BuiltinTools.bash(cwd=tmp_path, sandbox="required").run({"command": "echo ran > x"})
    assert str(failure.value) == (
        "The command was not run: sandbox is 'required', but bubblewrap (bwrap) is not installed outside this folder; "
        "install it, or set "
        "sandbox to 'auto'."
    )
    assert not (tmp_path / "x").exists()


def program(folder: Path, text: str) -> None:
    (folder / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bwrap").chmod(0o755)


async def test_a_sandbox_that_does_not_work_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_sandbox() is None
    (folder := tmp_path / "work").mkdir()
    with pytest.raises(ToolError, match="user namespaces are not allowed"):
        await BuiltinTools.bash(cwd=folder, sandbox="required").run({"command": "true"})
    assert (await BuiltinTools.bash(cwd=folder).run({"command": "echo on"})).text == "on\n"


SAID = """
import asyncio, sys
from planck_nb import BuiltinTools
tool = BuiltinTools.bash()
said = []
for _ in range(3):
    print(repr(asyncio.run(tool.run({"command": "echo on"}, progress=said.append)).text))
print(said)
"""


def test_a_missing_sandbox_is_reported_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SAID], env=environment, capture_output=True, text=True, check=True)
    *texts, said = done.stdout.splitlines()
    assert texts == [repr("on\n")] * 3
    assert said.count("Commands run without a sandbox: bubblewrap (bwrap) is not installed") == 1


async def test_a_container_that_refuses_proc(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = find_sandbox()
    assert sandbox is not None
    program(tmp_path, f'case " $* " in *" --proc "*) exit 1 ;; esac\nexec {sandbox.program} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = find_sandbox()
    assert found is not None
    assert "--proc" not in found.options
    tool = BuiltinTools.bash(cwd=place.project, sandbox="required")
    before = place.outside()
    for name in ("environment-of-bystander", "root-of-kernel", "kill", "ptrace", "memory", "core-pattern", "connect"):
        shown = await output(tool, {"command": f"{place.variables()}{ESCAPES[name]}"})
        assert SECRET not in shown
        assert "BREACH" not in shown
    assert place.outside() == before
    assert place.bystander.poll() is None
    assert (await tool.run({"command": "echo on"})).text == "on\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; the other tests run as this one")
@pytest.mark.parametrize("number", [0, 1])
def test_it_works_for_other_users(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    options = candidates(65534)[number]
    found = Sandbox(sandbox.program, options)
    folder = Path(
        subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True, user=65534).stdout.strip()
    )
    with monkeypatch.context() as patch:  # root could read more, which would be hidden
        patch.setattr(os, "geteuid", lambda: 65534)
        words = found.arguments(folder, GuardedPaths(folder), SandboxAccess(), {"HOME": "/nonexistent"})
    script = (
        "id -u; echo x > mine && cat mine; echo y > /var/tmp/planck-escape; "
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 6[0]0'"
    )
    command = [*words, "/bin/sh", "-c", script]
    done = subprocess.run(
        command, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False
    )
    assert done.stdout == "65534\nx\n0\n"
    assert not Path("/var/tmp/planck-escape").exists()
    (folder / "mine").unlink()
    folder.rmdir()


async def test_root_can_work_in_a_folder_of_another_user(sandbox: Sandbox, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 12_345, 12_345)
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="required")
    assert (await tool.run({"command": "echo x > f && cat f"})).text == "x\n"


async def test_a_command_stops_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    for mode in ("required", "off"):
        tool, long = BuiltinTools.bash(cwd=tmp_path, sandbox=mode), long_sleep()
        reply = Reply(calls=[Call("bash", {"command": f"echo begun; sleep {long}"})])
        agent = Agent(model=scripted_model([reply, "on"]), tools=[tool])
        run = agent.prompt("go")
        async for event in run:
            if event.type == "tool_progress":
                break
        await agent.abort()
        assert (await run.wait()).aborted
        assert still_running(long) == []


def zombies() -> set[int]:
    """The children of this process that have ended and were not waited for."""
    found: set[int] = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # waited for meanwhile
            if child.status() == psutil.STATUS_ZOMBIE:
                found.add(child.pid)
    return found


async def test_the_kernel_waits_for_no_children_of_others(sandbox: Sandbox, tmp_path: Path) -> None:
    before = zombies()  # of other tests
    other = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 7")
    for mode in ("required", "off"):
        tool = BuiltinTools.bash(cwd=tmp_path, sandbox=mode)
        await tool.run({"command": "(setsid sleep 300 &) ; true"})
    assert await other.wait() == 7
    assert zombies() <= before


def test_the_parent_of_a_command_without_a_sandbox_has_no_secrets(tmp_path: Path) -> None:
    script = """
import asyncio
from planck_nb import BuiltinTools
tool = BuiltinTools.bash(sandbox="off")
print(asyncio.run(tool.run({"command": "tr '\\\\0' '\\\\n' < /proc/$PPID/environ"})).text)
"""
    environment = {**os.environ, "MY_API_KEY": SECRET, "PLAIN": "shown"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "PLAIN=shown" in done.stdout
    assert SECRET not in done.stdout


async def test_a_command_that_kills_its_launcher_leaves_nothing(tmp_path: Path) -> None:
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="off")
    long = long_sleep()
    shown = await output(tool, {"command": f"setsid sleep {long} & sleep 0.2; kill -9 $PPID; sleep {long}"})
    assert shown.startswith("Process was ended by SIGKILL (9)")
    assert still_running(long) == []


@pytest.mark.parametrize("link", ["..", "../outside", "docs"])
def test_a_folder_that_another_command_replaces_gives_no_mount_elsewhere(
    sandbox: Sandbox, place: Place, link: str
) -> None:
    (place.project / "docs").mkdir()
    for folder in (place.home, place.home / "outside", place.project / "docs", place.project / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / ".bashrc").write_text(SECRET if folder == place.home else "")
    environment = {"HOME": str(place.home), "PATH": os.environ["PATH"]}
    guard = GuardedPaths.of(place.project, environment)
    words = sandbox.arguments(place.project, guard, SandboxAccess(), environment)
    (place.project / "sub").rename(place.project / "former")
    (place.project / "sub").symlink_to(link)
    done = subprocess.run(
        [*words, "/bin/sh", "-c", "cat */.ssh/* */.bashrc; echo evil | tee sub/victim sub/.bashrc > docs/a"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode
    assert SECRET not in done.stdout
    assert (place.home / "outside/victim").read_text() == "untouched"
    assert not (place.project / "docs/a").exists()
