"""What can be wrong in a line of code: every small change of a module that a test should notice.

Prose is left alone: docstrings, messages and everything inside an f-string are for people, and a changed word proves
little. Words that code goes by (a severity, a verdict, a key) are changed.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

_COMPARISONS = {
    ast.Lt: ("<", ("<=", ">=")), ast.LtE: ("<=", ("<", ">")), ast.Gt: (">", (">=", "<=")), ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)), ast.NotEq: ("!=", ("==",)), ast.Is: ("is", ("is not",)), ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)), ast.NotIn: ("not in", ("in",)),
}  # fmt: skip
_ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitOr: ("|", "&"), ast.BitAnd: ("&", "|"),
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil"}
_WORD = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")


class Mutation(NamedTuple):
    """One change of one place of a file."""

    path: str
    operator: str
    start: int
    """Of what is replaced, in bytes of the file."""
    end: int
    replacement: str
    lines: tuple[int, ...]
    """Where a test that runs the changed code passes: its statement; for what runs at import, the lines that use it."""

    def applied(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.replacement.encode() + data[self.end :]).decode()

    def difference(self, source: str) -> str:
        """The change as a unified diff without its head."""
        after = self.applied(source).splitlines()
        return "\n".join(list(difflib.unified_diff(source.splitlines(), after, lineterm="", n=1))[2:])


def mutations(path: str, source: str) -> list[Mutation]:
    """All changes of a file, in the order of the text."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(set(finder.found))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self._path, self._data = path, source.encode()
        self._begins = [0]
        for line in source.splitlines(keepends=True):
            self._begins.append(self._begins[-1] + len(line.encode()))
        self._texts = source.splitlines()
        self._lines: tuple[int, ...] = ()
        self._inside = 0
        """How many functions deep one stands; 0: what runs at import."""
        self.found: list[Mutation] = []

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._begins[node.lineno - 1] + node.col_offset, self._begins[node.end_lineno - 1] + node.end_col_offset

    def _change(self, operator: str, span: tuple[int, int], replacement: str) -> None:
        self.found.append(Mutation(self._path, operator, *span, replacement, self._lines))

    def _between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Changes the operator that stands between two operands, whatever brackets stand there too."""
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._data[start:end].decode()
        pattern = r"\s+".join(rf"\b{word}\b" if word.isalpha() else re.escape(word) for word in old.split())
        if place := re.search(pattern, gap):
            at = start + len(gap[: place.start()].encode())
            self._change(operator, (at, at + len(place.group().encode())), new)

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._data[start:end].decode()

    # Where one stands.

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        outside, self._lines = self._lines, tuple(self._lines_of(node))
        super().visit(node)
        self._lines = outside

    def _lines_of(self, node: ast.stmt) -> Iterator[int]:
        last = node.end_lineno or node.lineno
        if isinstance(node, (ast.If, ast.While, ast.For, ast.With, ast.Try)):
            last = max(node.lineno, node.body[0].lineno - 1)  # of what stands inside, each has lines of its own
        yield from range(node.lineno, last + 1)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for name in (one.id for one in targets if isinstance(one, ast.Name) and not self._inside):
            yield from (line for line, text in enumerate(self._texts, 1) if re.search(rf"\b{name}\b", text))

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self.visit(statement)

    # What is not code that runs, or is for people.

    def visit_Import(self, node: ast.Import) -> None: ...
    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body)  # how a dataclass is stored changes no answer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            if "cache" not in self._text(decorator):  # how much is kept changes no answer
                self.visit(decorator)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._inside += 1
        self._body(node.body)
        self._inside -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "Literal" not in self._text(node.value):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not re.match(r"Literal\[|TypeVar\(", self._text(node.value)):
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._text(node.value) not in ("Literal", "Annotated", "Callable", "dict", "list", "tuple"):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._condition(node.test)
        self.generic_visit(node)

    # Conditions.

    def _condition(self, test: ast.expr) -> None:
        if not isinstance(test, (ast.Compare, ast.UnaryOp, ast.Constant)):  # those are negated where they stand
            self._change("condition", self._span(test), f"(not ({self._text(test)}))")

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            old, others = _COMPARISONS[type(operator)]
            for new in others:
                self._between("comparison", left, right, old, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between("boolean", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._change("boolean", self._span(node), f"({self._text(node.operand)})")
        elif isinstance(node.op, ast.USub):
            self._change("arithmetic", self._span(node), f"({self._text(node.operand)})")
        self.generic_visit(node)

    # Values.

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            self._between("arithmetic", node.left, node.right, *_ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._change("constant", self._span(node), str(not value))
        elif isinstance(value, int):
            self._change("constant", self._span(node), repr(value + 1))
            self._change("constant", self._span(node), f"({value - 1})" if value < 1 else repr(value - 1))
        elif isinstance(value, float):
            for other in (value * 2, value / 2) if value else (1.0,):
                self._change("constant", self._span(node), repr(other))
        elif isinstance(value, str) and _WORD.fullmatch(value):
            self._change("word", self._span(node), repr(f"{value}~"))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _NAMES:
            end = self._span(node.func)[1]
            self._change("call", (end - len(name), end), _NAMES[name])
        self.generic_visit(node)

    # Statements.

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._change("return", self._span(node.value), "None")
        self.generic_visit(node)

    def _removable(self, node: ast.stmt) -> None:
        self._change("removed", self._span(node), "pass")
        self.generic_visit(node)

    visit_Expr = visit_Raise = visit_Continue = visit_Break = _removable

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._removable(node)
        if type(node.op) in _ARITHMETIC and not _is_text(node.value):
            old, new = _ARITHMETIC[type(node.op)]
            self._between("arithmetic", node.target, node.value, f"{old}=", f"{new}=")


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
