"""Does with venv and pip what the link has uv do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_, *words = sys.argv
with Path("uv-calls").open("a") as file:
    file.write(" ".join(words) + "\n")
if words[0] == "venv":
    command = [sys.executable, "-m", "venv", "--without-pip", words[-1]]
else:
    python = words[words.index("--python") + 1]
    what = words[words.index("--python") + 2 :]
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-build-isolation", *what]
sys.exit(subprocess.run(command, check=False).returncode)
