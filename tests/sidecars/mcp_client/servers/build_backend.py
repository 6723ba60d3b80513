"""A build backend without requirements, so that projects of the tests are installed without a network.

It installs a link to the folder of the project, and the entry point of its sidecar.
"""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

HERE = Path.cwd()


def get_requires_for_build_editable(_settings: object = None) -> list[str]:
    return []


def build_editable(folder: str, _settings: object = None, _metadata: object = None) -> str:
    (HERE / "environment.json").write_text(json.dumps(dict(os.environ)))
    with (HERE / "builds").open("a") as file:
        file.write("built\n")
    if (HERE / "hang").exists():
        with subprocess.Popen(["sleep", "300"], start_new_session=True) as child:
            (HERE / "child").write_text(str(child.pid))
    name = "my_sidecar-0.1-py3-none-any.whl"
    information = "my_sidecar-0.1.dist-info"
    requires = f"Requires-Dist: {need}\n" if (need := os.environ.get("PIP_NEED")) else ""
    with zipfile.ZipFile(Path(folder) / name, "w") as wheel:
        wheel.writestr("my_sidecar.pth", f"{HERE}\n")
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: my-sidecar\nVersion: 0.1\n{requires}")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(
            f"{information}/entry_points.txt", "[planck_nb.sidecars]\nmy_sidecar = my_sidecar_module:sidecar\n"
        )
        wheel.writestr(f"{information}/RECORD", "")
    return name
