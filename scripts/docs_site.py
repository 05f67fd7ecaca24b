"""What the site makes of pages that are written for GitHub: hooks of mkdocs, see mkdocs.yml.

Pages link to files of the repository. Those outside docs/ (README, a catalogue's file) are brought into the site, under
`project/`, and the links lead there. The catalogue's pages are made here, formulas become MathML, which browsers draw
by themselves, of a console's block the typed lines stand out, and Chinese pages are said to be Chinese.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from os.path import normpath, relpath
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify
from reference import CATALOGUE

from draftpick.catalog import load

ROOT = Path(__file__).parent.parent
LOG = get_plugin_logger("docs_site")
OUTSIDE = "project/"
"""The folder of the site that stands for the repository's root."""
ALWAYS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
FIRST_PART = "<!-- The first part of README.md stands here on the site. -->\n"
INSTEAD = re.compile(r"\nWhat it does is told in the \[README\].*?\.\n")
_LINK = re.compile(r"(?P<before>\]\()(?P<path>[^()\s#:]+)(?P<rest>(?:#[^()\s]*)?\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")  # as GitHub does, in any script
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [
            {"name": "math", "class": "math", "format": _formula},
            {"name": "console", "class": "console", "format": _console},
        ]
    }
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    catalog = load()
    for name, write in CATALOGUE.items():
        files.append(File.generated(config, f"reference/{name}", content=write(catalog)))
    todo = [ROOT / name for name in ALWAYS]
    todo += [ROOT / "docs" / page.src_uri for page in files.documentation_pages() if not page.generated_by]
    seen = set()
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        if not path.is_relative_to(ROOT / "docs"):
            name = OUTSIDE + path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV))
        if path.suffix == ".md":
            todo += (ROOT / target for target, _ in _targets(path))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri == "index.md":
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        first = re.split(r"^## ", readme, maxsplit=1, flags=re.MULTILINE)[0].partition("\n")[2].strip()
        markdown = INSTEAD.sub("\n", markdown.replace(FIRST_PART, _moved(first, ROOT / "README.md", page)))
    # Python-Markdown reads no Markdown within HTML unless it is told to.
    return re.sub("^<details>", '<details markdown="1">', _moved(markdown, _source(page), page), flags=re.MULTILINE)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Warns, which fails a strict build, where the site reads a page otherwise than GitHub does."""
    theirs, ours = _parts(MarkdownIt("commonmark").enable("table").render(page.markdown or "")), _parts(html)
    if theirs != ours:
        changed = {tag: (theirs[tag], ours[tag]) for tag in theirs | ours if theirs[tag] != ours[tag]}
        LOG.warning("%s is read otherwise than on GitHub (there, here): %s", page.file.src_uri, changed)
    return html


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """The language of a page by its name, as README.zh-CN.md: browsers choose fonts and voices by it."""
    if re.search(r"\.zh(-CN)?\.md$", page.file.src_uri):
        return re.sub(r'<html lang="[^"]*"', '<html lang="zh-CN"', output, count=1)
    return output


def _parts(html: str) -> Counter[str]:
    """How many there are of what readers of Markdown differ in."""
    return Counter(re.findall(r"<(li|td|h[1-6]|strong|em|blockquote|table)\b", html))


def _source(page: Page) -> Path:
    """The file of the repository that a page is made from."""
    name = page.file.src_uri
    return ROOT / name.removeprefix(OUTSIDE) if name.startswith(OUTSIDE) else ROOT / "docs" / name


def _moved(markdown: str, source: Path, page: Page) -> str:
    """Text whose links, written as from `source`, are written as from the page."""

    def moved(link: re.Match[str]) -> str:
        target = _in_repository(source, link["path"])
        if not (ROOT / target).is_file():
            return link[0]
        name = target.removeprefix("docs/") if target.startswith("docs/") else OUTSIDE + target
        return f"{link['before']}{relpath(name, Path(page.file.src_uri).parent)}{link['rest']}"

    return _LINK.sub(moved, markdown)


def _targets(path: Path) -> Iterator[tuple[str, str]]:
    """Files of the repository that a page links to."""
    for link in _LINK.finditer(path.read_text(encoding="utf-8")):
        target = _in_repository(path, link["path"])
        if (ROOT / target).is_file():
            yield target, link["rest"]


def _in_repository(source: Path, link: str) -> str:
    return normpath(source.relative_to(ROOT).parent / link)


def _formula(source: str, *_: Any, **__: Any) -> str:
    return f'<div class="formula">{convert(source.strip(), display="block")}</div>'


def _console(source: str, *_: Any, **__: Any) -> str:
    """A console as it is: lexers take lines of an output that begin with # for prompts."""
    lines = (
        f'<span class="gp">$ </span><span class="command">{escape(line[2:])}</span>'
        if line.startswith("$ ")
        else f'<span class="go">{escape(line)}</span>'
        for line in source.rstrip().split("\n")
    )
    text = "\n".join(lines)
    return f'<div class="language-console highlight"><pre><code>{text}\n</code></pre></div>'
