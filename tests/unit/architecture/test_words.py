"""The words that docstrings and descriptions of fields begin with."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("argosy", "steps", "evals", "probes", "workflows", "benchmarks")
REFUSED = {"as", "by", "how", "in", "of", "or", "that", "those", "to", "what", "where", "which", "who", "whose", "with"}
Text = tuple[int, str]  # line, words


def _text(node: ast.AST) -> Iterator[Text]:
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value


def _field_texts(node: ast.ClassDef) -> Iterator[Text]:
    """Texts below annotated fields, and those of Field(description=...)."""
    for above, below in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(above, ast.AnnAssign):
            yield from _text(below)
            for each in ast.walk(above):
                if isinstance(each, ast.keyword) and each.arg == "description":
                    yield from _text(each.value)


def texts(source: str) -> Iterator[Text]:
    """Docstrings and descriptions of fields, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _text(node.body[0]) if node.body else ()
        if isinstance(node, ast.ClassDef):
            yield from _field_texts(node)


def refused(source: str) -> list[str]:
    """`line: first words` of each text that begins with a refused word, unless in quotation marks, as an example is."""
    found = ((line, text.split()) for line, text in texts(source))
    return [f"{line}: {' '.join(words[:6])}" for line, words in found
            if words and words[0].strip(",:;`").lower() in REFUSED]  # fmt: skip


def test_a_text_begins_with_a_noun_or_a_verb() -> None:
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in refused(path.read_text(encoding="utf-8"))]
    assert not found, "begin a function's docstring with a verb, others with a noun:\n" + "\n".join(found)


@pytest.mark.parametrize("source", [
    '"""What a module holds."""',
    'class A:\n    """Of a class."""',
    'def f():\n    """With `high`, a function."""',
    'class A:\n    n: int\n    """by task, a field"""',
    'class A:\n    n: int = Field(0, description="how many")',
    'class A:\n    n: Annotated[int, Field(description="those that count")] = 0'])  # fmt: skip
def test_each_kind_of_text_is_looked_at(source: str) -> None:
    assert refused(source)
