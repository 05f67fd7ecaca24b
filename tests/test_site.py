"""The site: what the check of its links finds, and what becomes of pages that are written for GitHub."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from pages import DOCS, ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from check_links import Site, unreachable

INDEX = """<!doctype html><html><head><link rel="stylesheet" href="site.css">%s</head>
<body><a href="page.html#there">x</a> <a href="folder/">x</a> <a href="#top">x</a> <h1 id="top">x</h1>%s
</body></html>"""


def built(folder: Path, head: str = "", body: str = "") -> Site:
    (folder / "folder").mkdir()
    (folder / "site.css").write_text("", encoding="utf-8")
    (folder / "index.html").write_text(INDEX % (head, body), encoding="utf-8")
    (folder / "page.html").write_text('<h2 id="there">x</h2> <a href="index.html">x</a>', encoding="utf-8")
    (folder / "folder" / "index.html").write_text('<a href="../page.html?x=1#there">x</a>', encoding="utf-8")
    return Site(folder)


def test_a_sound_site_has_no_faults(tmp_path: Path) -> None:
    outside = '<a href="https://example.org/a#b">x</a> <a href="mailto:x@example.org">x</a>'
    site = built(tmp_path, body=outside)
    assert list(site.wrong()) == []
    assert site.outside() == {"https://example.org/a": "index.html"}
    assert len(site.anchors) == 3


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        ("", '<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ("", '<a href="page.html#gone">x</a>', "page.html#gone: no such place on that page"),
        ("", '<a href="../outside.html">x</a>', "../outside.html leads nowhere"),
        ("", '<img src="gone.png">', "gone.png leads nowhere"),
        ("", '<img src="https://example.org/x.png">', "is fetched from another host"),
        ('<script src="https://example.org/x.js"></script>', "", "is fetched from another host"),
        ('<script src="//example.org/x.js"></script>', "", "is fetched from another host"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "", "is fetched from another host"),
    ],
)
def test_a_fault_is_found(head: str, body: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "outside.html").write_text("", encoding="utf-8")
    (fault,) = built(tmp_path / "site", head, body).wrong()
    assert fault.startswith("index.html: ")
    assert said in fault


def test_the_command_fails_on_a_fault_and_lists_what_is_outside(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    built(tmp_path / "site", body='<a href="gone.html">x</a> <a href="https://example.org/">x</a>')
    command = [sys.executable, str(ROOT / "scripts" / "check_links.py"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "index.html: gone.html leads nowhere\n" in done.stdout
    assert (tmp_path / "external-links.txt").read_text(encoding="utf-8") == "https://example.org/\tindex.html\n"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/there" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_addresses_outside_are_asked_for(host: str) -> None:
    asked = {f"{host}/there": "a.html", f"{host}/gone": "b.html"}
    assert list(unreachable(asked)) == [f"b.html: {host}/gone: HTTP 404"]


# ---------------------------------------------------------------------- the pages


def entries(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav if isinstance(nav, list) else nav.values():  # type: ignore[attr-defined]
            yield from entries(one)


def test_every_page_has_its_place_and_no_place_is_empty() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.SafeLoader)
    places = list(entries(config["nav"]))
    assert len(places) == len(set(places))
    here = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    made = {f"reference/{name}.md" for name in ("models", "heads", "tokenizers", "measurements")}
    outside = {f"project/{name}" for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    assert here | made | outside <= set(places)
    assert {
        place for place in set(places) - here - made if not (ROOT / place.removeprefix("project/")).is_file()
    } == set()


def test_nothing_is_fetched_by_the_theme() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.SafeLoader)
    assert config["theme"]["font"] is False
    assert "http" not in str([config.get("extra_css"), config.get("extra_javascript"), config["extra"]])


def test_a_page_of_the_site_is_made_as_it_should_be(tmp_path: Path) -> None:
    """The whole build, which `make docs` does, is too slow here: one page goes through the hooks."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    import docs_site
    from mkdocs.config import load_config
    from mkdocs.structure.files import File
    from mkdocs.structure.pages import Page

    config = load_config(str(ROOT / "mkdocs.yml"))

    def page(name: str) -> Page:
        return Page(None, File(name, str(DOCS), str(tmp_path), use_directory_urls=False), config)

    moved = docs_site.on_page_markdown(
        "[a](gate.md#x) [b](../catalog/devices.toml) [c](https://x.org)", page("doctor.md")
    )
    assert moved == "[a](gate.md#x) [b](project/catalog/devices.toml) [c](https://x.org)"
    moved = docs_site.on_page_markdown("[a](docs/gate.md) [b](CHANGELOG.md)", page("project/README.md"))
    assert moved == "[a](../gate.md) [b](CHANGELOG.md)"
    first = docs_site.on_page_markdown((DOCS / "index.md").read_text(encoding="utf-8"), page("index.md"))
    assert "$ draftpick recommend " in first
    assert "stands here on the site" not in first
    assert "What it does is told" not in first


@pytest.mark.parametrize(
    ("name", "language"),
    [("ascend.zh.md", "zh-CN"), ("project/README.zh-CN.md", "zh-CN"), ("ascend.md", "en"), ("project/README.md", "en")],
)
def test_a_page_names_its_language(tmp_path: Path, name: str, language: str) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    import docs_site
    from mkdocs.config import load_config
    from mkdocs.structure.files import File
    from mkdocs.structure.pages import Page

    file = File(name, str(DOCS), str(tmp_path), use_directory_urls=False)
    page = Page(None, file, load_config(str(ROOT / "mkdocs.yml")))
    made = docs_site.on_post_page('<!doctype html>\n<html lang="en" class="no-js"><p lang="en">', page)
    assert made == f'<!doctype html>\n<html lang="{language}" class="no-js"><p lang="en">'


def test_a_console_is_shown_as_text() -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    import docs_site

    shown = docs_site._console("$ draftpick rules <a>\n# not a prompt & no comment\n")
    assert '<span class="command">draftpick rules &lt;a&gt;</span>\n<span class="go"># not a prompt &amp;' in shown
    assert "<math" in docs_site._formula(r"\tau(k) = \frac{1}{1-\alpha}")
