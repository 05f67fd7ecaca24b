#!/usr/bin/env python3
"""A bill of materials for the wheel of a folder, as CycloneDX JSON: it, what it needs as installed now, and its data.

    python scripts/sbom.py dist            # writes dist/draftpick-VERSION.cdx.json
    python scripts/sbom.py dist elsewhere  # writes it into another folder

The packages are those of a new environment with nothing but the wheel in it, read by cyclonedx-py; the data are the
rows of docs/data-licences.md. Extras are not in it: which torch is installed is the user's choice. Needs the group
`release`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any, NamedTuple

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "data-licences.md"
VERSION = SchemaVersion.V1_6
MODEL = "model.safetensors"


class Data(NamedTuple):
    """A row of the page: a pattern of files, seen from catalog/, what they are, where from, under what licence."""

    files: str
    what: str
    origin: str
    licence: str
    objections: str

    def paths(self) -> list[Path]:
        return sorted(path for path in (ROOT / "catalog").glob(self.files) if path.is_file())


def rows() -> list[Data]:
    """The first table of the page."""
    lines = PAGE.read_text(encoding="utf-8").partition("|---|")[2].split("\n\n")[0].split("\n")[1:]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [Data(files.strip("`"), *rest) for files, *rest in cells]


def components() -> Iterator[dict[str, Any]]:
    """One for each row; where it is one file, or a model, with its hash."""
    for row in rows():
        for path in row.paths() if row.files.endswith(MODEL) else [None]:
            name = path.relative_to(ROOT).as_posix() if path else f"catalog/{row.files}"
            one = path or (ROOT / "catalog" / row.files if "*" not in row.files else None)
            yield {
                "bom-ref": name,
                "type": "machine-learning-model" if path else "data",
                "name": name,
                "description": f"{row.what}; from: {row.origin}",
                "licenses": [{"expression": row.licence}],
                **({"hashes": [{"alg": "SHA-256", "content": _hash(one)}]} if one else {}),
            }


def packages(wheel: Path) -> dict[str, Any]:
    """What cyclonedx-py finds in a new environment with the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "uv", "venv", "--quiet", folder, "--clear"], check=True)
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, wheel]
        subprocess.run(install, check=True)
        # It names the folder in which the wheel happened to lie.
        for path in Path(folder).rglob("draftpick-*.dist-info/direct_url.json"):
            path.unlink()
        command = [
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            python,
            "--output-reproducible",
            "--short-PURLs",
        ]
        command += ["--pyproject", ROOT / "pyproject.toml", "--spec-version", VERSION.to_version()]
        return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def needs(wheel: Path) -> set[str]:
    """What the wheel itself asks for, without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", ())
    asked = (Requirement(line) for line in lines)
    return {canonicalize_name(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})}


def main() -> None:
    folder, *elsewhere = (Path(argument) for argument in sys.argv[1:])
    (wheel,) = folder.glob("*.whl")
    bill = packages(wheel.resolve())
    data = list(components())
    root = bill["metadata"]["component"]
    root["version"] = wheel.name.split("-")[1]
    root["hashes"] = [{"alg": "SHA-256", "content": _hash(wheel)}]
    asked = needs(wheel)
    (edges,) = (row for row in bill["dependencies"] if row["ref"] == root["bom-ref"])
    # cyclonedx-py also counts what the extras of pyproject.toml ask for, where another package brought it.
    found = [row["bom-ref"] for row in bill["components"] if canonicalize_name(row["name"]) in asked]
    edges["dependsOn"] = sorted([*found, *(row["bom-ref"] for row in data)])
    bill["components"] += data
    text = json.dumps(bill, indent=2, ensure_ascii=False) + "\n"
    if wrong := JsonStrictValidator(VERSION).validate_str(text):
        raise SystemExit(f"not valid CycloneDX: {wrong}")
    path = (elsewhere or [folder])[0] / f"draftpick-{root['version']}.cdx.json"
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {len(bill['components']) - len(data)} packages, {len(data)} kinds of data")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
