"""Checks the built site as a browser sees it: every link and picture inside it leads somewhere, anchors too.

`python scripts/check_links.py build/site` also lists the addresses outside, in build/external-links.txt, and asks for
them only with `--external`. A page that would load anything from another host is an error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

from lxml import html

LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
"""What a browser fetches by itself."""
SEVERAL, PATIENCE_S = 8, 20.0


class Link(NamedTuple):
    """Where a page leads, as it is written there."""

    page: Path
    address: str
    loaded: bool


class Site:
    """The built pages: their links, and the anchors in each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.anchors: dict[Path, set[str]] = {}
        self.links: list[Link] = []
        for page in sorted(self.folder.rglob("*.html")):
            root = html.parse(str(page), html.HTMLParser(encoding="utf-8")).getroot()
            self.anchors[page] = {*root.xpath("//@id"), *root.xpath("//a/@name"), ""}
            if page.name != "404.html":  # its links are those of wherever it is shown
                self.links += (Link(page, address, loaded) for address, loaded in _addresses(root))

    def wrong(self) -> Iterator[str]:
        """What leads nowhere, or is fetched from elsewhere."""
        for page, address, loaded in self.links:
            where = page.relative_to(self.folder)
            parts = urlsplit(address)
            if parts.scheme in ("http", "https") or parts.netloc:
                if loaded:
                    yield f"{where}: {address} is fetched from another host"
                continue
            if parts.scheme:
                continue
            path, anchor = urldefrag(address)
            target = self._file(page, unquote(path.partition("?")[0]))
            if target is None:
                yield f"{where}: {address} leads nowhere"
            elif target in self.anchors and unquote(anchor) not in self.anchors[target]:
                yield f"{where}: {address}: no such place on that page"

    def _file(self, page: Path, path: str) -> Path | None:
        target = (page.parent / path).resolve() if path else page
        if target.is_dir():
            target /= "index.html"
        return target if target.is_file() and target.is_relative_to(self.folder) else None

    def outside(self) -> dict[str, str]:
        """Addresses on other hosts, and a page that names each."""
        found = {}
        for page, address, loaded in self.links:
            if not loaded and urlsplit(address).scheme in ("http", "https"):
                found.setdefault(urldefrag(address).url, str(page.relative_to(self.folder)))
        return dict(sorted(found.items()))


def _addresses(root: html.HtmlElement) -> Iterator[tuple[str, bool]]:
    for anchor in root.xpath("//a[@href]"):
        yield anchor.get("href"), False
    for tag, name in LOADED.items():
        for element in root.xpath(f"//{tag}[@{name}]"):
            if element.get("rel") not in ("canonical", "next", "prev", "edit"):
                yield element.get(name), True


def unreachable(addresses: dict[str, str]) -> Iterator[str]:
    """Addresses that answer with an error, or not at all."""
    import urllib3

    pool = urllib3.PoolManager(
        timeout=PATIENCE_S, retries=urllib3.Retry(2, redirect=5), headers={"User-Agent": "draftpick"}
    )

    def asked(address: str) -> str | None:
        try:
            answer = pool.request("GET", address, preload_content=False)
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        answer.release_conn()
        return f"HTTP {answer.status}" if answer.status in (404, 410) else None

    with ThreadPoolExecutor(SEVERAL) as workers:
        for address, fault in zip(addresses, workers.map(asked, addresses), strict=True):
            if fault is not None:
                yield f"{addresses[address]}: {address}: {fault}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--external", action="store_true", help="also ask for the addresses outside")
    asked = parser.parse_args()
    if not asked.site.is_dir():
        parser.error(f"{asked.site} is no folder: `make docs` builds the site")
    site = Site(asked.site)
    outside = site.outside()
    listed = asked.site.parent / "external-links.txt"
    listed.write_text("".join(f"{address}\t{page}\n" for address, page in outside.items()), encoding="utf-8")
    faults = [*site.wrong(), *(unreachable(outside) if asked.external else ())]
    print(*faults, sep="\n", end="\n" if faults else "")
    counted = f"{len(site.anchors)} pages, {len(site.links)} links, {len(faults)} wrong"
    print(f"{counted}; {len(outside)} lead outside: {listed}")
    return 1 if faults or not site.anchors else 0


if __name__ == "__main__":
    sys.exit(main())
