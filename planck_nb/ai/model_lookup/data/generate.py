"""Writes `models.json`, the snapshot of the facts about the vendors' models. For developers; needs npm.

    python -m planck_nb.ai.model_lookup.data.generate [VERSION]

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

from planck_nb.ai.models import LEVELS

PACKAGE = "@earendil-works/pi-ai"
PROVIDERS = ("anthropic", "openai", "google")
OPENAI_LONG_WINDOW = 1_050_000
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
        "prices": "US dollars per million tokens: input, output, cache read, cache write; "
        "steps: the same for requests with more input tokens than the first number",
        "providers": providers,
    }
    TARGET.write_text(render(snapshot), encoding="utf-8")


def read(archive: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read one JSON file of the package."""
    file = archive.extractfile(name)
    if file is None:
        raise FileNotFoundError(name)
    return json.load(file)


def models(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The chat models of one provider, in the format of the snapshot."""
    for group in table.values():
        for entry in group.values():
            if entry.get("type", "chat") == "chat":
                yield entry["id"], reduced(entry)


def reduced(entry: dict[str, Any]) -> dict[str, Any]:
    """The facts in one entry that planck_nb uses. Unknown ones are left out."""
    compat = entry.get("compat", {})
    settings: dict[str, Any] = {}
    if entry.get("reasoning") and entry["provider"] == "anthropic":
        settings["thinking"] = "adaptive" if compat.get("forceAdaptiveThinking") else "budget"
    if compat.get("supportsTemperature") is False:
        settings["temperature"] = False
    if levels := entry.get("thinkingLevelMap"):
        settings["levels"] = levels
    row: dict[str, Any] = {
        "name": entry["name"],
        "context": window(entry),
        "output": entry["maxTokens"],
        "modalities": modalities(entry),
        "thinking": thinking_levels(entry),
        **prices(entry["cost"]),
    }
    return {**row, "settings": settings} if settings else row


def window(entry: dict[str, Any]) -> int:
    """The context window in tokens.

    Where prices rise at the end of the window that the package states, it has cut the window there to stay cheap;
    OpenAI documents the real one of these models.
    """
    stated: int = entry["contextWindow"]
    steps = entry["cost"].get("tiers", ())
    return OPENAI_LONG_WINDOW if any(step["inputTokensAbove"] >= stated for step in steps) else stated


def modalities(entry: dict[str, Any]) -> list[str]:
    """The kinds of content that the model accepts. The package has no data on PDFs.

    According to the vendors' documentation, its models that accept images also accept PDFs, except for these two.
    """
    found: list[str] = entry["input"]
    blind_to_pdf = entry["id"].startswith(("gemma-", "gpt-4-turbo"))
    return [*found, "pdf"] if "image" in found and not blind_to_pdf else found


def thinking_levels(entry: dict[str, Any]) -> list[str]:
    """The levels of thinking that the model has; if the package does not list them, all but the two highest."""
    if not entry.get("reasoning"):
        return []
    named = entry.get("thinkingLevelMap", {})
    return [level for level in LEVELS if (named[level] is not None if level in named else level not in LEVELS[-2:])]


def prices(cost: dict[str, Any]) -> dict[str, Any]:
    """The prices. The package writes 0 for a price that is unknown or that the vendor does not publish."""
    if not cost["input"] and not cost["output"]:
        return {}
    steps = [[step["inputTokensAbove"], *rates(step)] for step in cost.get("tiers", ())]
    return {"price": rates(cost), "steps": steps} if steps else {"price": rates(cost)}


def rates(cost: dict[str, Any]) -> list[float | None]:
    """The rates for input, output, cache read and cache write."""
    return [cost["input"], cost["output"], cost["cacheRead"] or None, cost["cacheWrite"] or None]


def render(snapshot: dict[str, Any]) -> str:
    """The snapshot as JSON with one line per model, so that a diff shows one line per changed model."""
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
