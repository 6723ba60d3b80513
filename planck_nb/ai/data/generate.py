"""Writes `models.json`, the snapshot of what is known of the vendors' models. For developers; needs npm.

    python -m planck_nb.ai.data.generate [VERSION]

The facts come from the MIT-licensed npm package @earendil-works/pi-ai, whose table of models is fetched with
`npm pack` and reduced to what planck_nb uses. The file records where it came from.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGE = "@earendil-works/pi-ai"
PROVIDERS = ("anthropic", "openai", "google")
TARGET = Path(__file__).with_name("models.json")


def main(version: str = "latest") -> None:
    """Fetch the package and write the snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", f"{PACKAGE}@{version}"], cwd=folder, check=True, capture_output=True)  # noqa: S603, S607 - fixed command
        package = next(Path(folder).glob("*.tgz")).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        about = read(archive, "package/package.json")
        providers = {
            name: dict(sorted(models(read(archive, f"package/dist/providers/data/{name}.json")))) for name in PROVIDERS
        }
    snapshot = {
        "source": f"https://www.npmjs.com/package/{PACKAGE}",
        "version": about["version"],
        "licence": about["license"],
        "date": datetime.now(UTC).date().isoformat(),
        "prices": "US dollars per million tokens: input, output, cache read, cache write",
        "providers": providers,
    }
    TARGET.write_text(render(snapshot), encoding="utf-8")


def read(archive: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - somebody else's JSON
    """One JSON file of the package."""
    file = archive.extractfile(name)
    if file is None:
        raise FileNotFoundError(name)
    return json.load(file)


def models(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The chat models of one provider in our own terms."""
    for group in table.values():
        for entry in group.values():
            if entry.get("type", "chat") == "chat":
                yield entry["id"], reduced(entry)


def reduced(entry: dict[str, Any]) -> dict[str, Any]:
    """What we use of one entry. Prices of 0 for the cache mean that the vendor names none."""
    cost, compat = entry["cost"], entry.get("compat", {})
    settings: dict[str, Any] = {}
    if entry.get("reasoning") and entry["provider"] == "anthropic":
        settings["thinking"] = "adaptive" if compat.get("forceAdaptiveThinking") else "budget"
    if compat.get("supportsTemperature") is False:
        settings["temperature"] = False
    if levels := entry.get("thinkingLevelMap"):
        settings["levels"] = levels
    row: dict[str, Any] = {
        "name": entry["name"],
        "context": entry["contextWindow"],
        "output": entry["maxTokens"],
        "thinking": bool(entry.get("reasoning")),
        "price": [cost["input"], cost["output"], cost["cacheRead"] or None, cost["cacheWrite"] or None],
    }
    return {**row, "settings": settings} if settings else row


def render(snapshot: dict[str, Any]) -> str:
    """The snapshot as JSON with one line per model, so that a change shows as one line."""
    head = {key: value for key, value in snapshot.items() if key != "providers"}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    blocks = [
        f"    {json.dumps(name)}: {{\n"
        + ",\n".join(f"      {json.dumps(key)}: {json.dumps(row)}" for key, row in table.items())
        + "\n    }"
        for name, table in snapshot["providers"].items()
    ]
    return "{\n" + "\n".join(lines) + '\n  "providers": {\n' + ",\n".join(blocks) + "\n  }\n}\n"


if __name__ == "__main__":
    main(*sys.argv[1:2])
