"""The readers use what other tests write files and answer questions with."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("", "models")]
