"""Markdown read back by a parser that owes draftpick nothing, and compared with the blocks it was made from."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from draftpick.report.blocks import Block, Chart, Code, Paragraph, Report, Table
from draftpick.report.text import printable

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SUMMARY = re.compile(r"<details><summary>(.*)</summary>\n?")
FORGES_ACT_ON = re.compile(
    r"@\w|#\d|\bGH-\d|!\d|:[\w+-]+:|\w://|(?<![^\W_])www\.|(?<![\w.,])[0-9a-f]{7,40}(?![\w.,])|\$\w|~\w|&\w|%\w",
    re.IGNORECASE,
)
"""In text that is no code: what GitHub or GitLab turn into something after the Markdown was read."""

Shape = list[tuple[str, object]]


def shape_of(markdown: str) -> Shape:
    """The document as (kind, content): headings, texts, lists of doubts, tables by row and cell, code, folds."""
    shape: Shape = []
    tokens = PARSER.parse(markdown)
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.type == "heading_open":
            shape.append((token.tag, _plain(tokens[at + 1])))
            at += 3
        elif token.type == "table_open":
            end = next(place for place in range(at, len(tokens)) if tokens[place].type == "table_close")
            shape.append(("table", _cells(tokens[at:end])))
            at = end + 1
        elif token.type == "inline":
            shape.append(("text", _plain(token)))
            at += 1
        elif token.type == "fence":
            shape.append(("code", token.content.removesuffix("\n").split("\n")))
            at += 1
        elif token.type == "html_block":
            shape.append(_fold(token.content))
            at += 1
        else:
            assert token.type in _AROUND, token.type
            shape += [("rule", "")] if token.type == "hr" else []
            at += 1
    return shape


_AROUND = {
    "paragraph_open", "paragraph_close", "hr", "blockquote_open", "blockquote_close", "bullet_list_open",
    "bullet_list_close", "list_item_open", "list_item_close",
}  # fmt: skip


def expected(report: Report) -> Shape:
    """What the blocks say that the document holds."""
    shape: Shape = [("h2", shown(report.title))]
    for place, section in enumerate(report.sections):
        if section.folded:
            shape.append(("fold", shown(section.title)))
        elif place:
            shape.append(("h3", shown(section.title)))
        for block in section.blocks:
            shape += _block(block)
        shape += [("unfold", "")] if section.folded else []
    return [*shape, ("rule", ""), ("text", shown(report.footer))]


def shown(text: str) -> str:
    """What a person sees of a text."""
    return printable(text).strip()


def _block(block: Block) -> Shape:
    title: Shape = [("text", shown(block.title))] if not isinstance(block, Paragraph) and block.title else []
    if isinstance(block, Paragraph):
        return [("text", shown(block.text))] if shown(block.text) else []
    if isinstance(block, Table):
        return [*title, ("table", [[shown(cell) for cell in row] for row in (block.header, *block.rows)])]
    if isinstance(block, Code):
        return [*title, ("code", [printable(line) for line in block.text.split("\n")])]
    assert isinstance(block, Chart)
    alt: Shape = [("text", shown(block.alt))] if shown(block.alt) else []
    return [*title, *alt, *_block(block.table), ("code", ...)]


def same(found: Shape, wanted: Shape) -> bool:
    """Whether two documents are one; the picture of a chart may be any code."""
    return len(found) == len(wanted) and all(
        kind == other and (content == other_content or other_content is ...)
        for (kind, content), (other, other_content) in zip(found, wanted, strict=True)
    )


def _cells(tokens: Sequence[Token]) -> list[list[str]]:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_plain(token))
    return rows


def _plain(inline: Token) -> str:
    """The text of a line, in which nothing is a link, a picture, a break or a tag."""
    said: list[str] = []
    for token in inline.children or []:
        assert token.type in ("text", "code_inline", "strong_open", "strong_close"), (token.type, inline.content)
        said.append(token.content)
    for text in _texts(inline.children or []):
        assert not FORGES_ACT_ON.search(text), text
    return "".join(said)


def _texts(children: Iterable[Token]) -> Iterable[str]:
    """Runs of text between code and marks."""
    run = ""
    for token in children:
        if token.type == "text":
            run += token.content
        else:
            yield run
            run = ""
    yield run


def _fold(content: str) -> tuple[str, str]:
    if content.strip() == "</details>":
        return ("unfold", "")
    inner = SUMMARY.fullmatch(content)
    assert inner is not None, content
    for text in re.split(r"<code>[^<>]*</code>", inner[1]):
        assert not re.search("[<>]", text)
        assert not FORGES_ACT_ON.search(html.unescape(text))
    return ("fold", html.unescape(re.sub("</?code>", "", inner[1])))
