"""Build hook: compiles catalog/ into the JSON index that ships inside the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileCatalog(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from draftpick.catalog_index import write_index

            write_index(root / "catalog", root / "draftpick" / "_data")
        finally:
            sys.path.remove(str(root))
        build_data["artifacts"] += [
            "draftpick/_data/*.json",
            "draftpick/_data/*.jsonl",
            "draftpick/_data/relations/*.json",
        ]
