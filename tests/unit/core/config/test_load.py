"""Layers, overrides, and what a person reads when one of them is wrong."""

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from argosy.core.config.load import load, parse_yaml
from argosy.core.config.schema import Config, Externals
from argosy.core.errors import InputError
from tests.trees import write_file as write


class Optimizer(Config):
    name: str = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)


class Stage(Config):
    optimizer: Optimizer = Optimizer()
    mixture: Mapping[str, float] = Field(default_factory=dict)
    steps: int = 10


class Kinds(Config):
    """A field of each kind of value."""

    flag: bool = True
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    count: Annotated[int, Field(ge=1, lt=9)] = 3
    which: Literal["a", "b"] = "a"
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("x",)
    pair: tuple[int, int] = (1, 2)
    table: Mapping[str, int] = Field(default_factory=dict)
    limit: int | None = None
    either: int | Literal["auto"] = 1
    deep: Stage = Stage()
    perhaps: Stage | None = None


class Source(Config):
    path: str
    weight: float = 1.0


class Root(Config):
    seed: int = 17
    inputs: Externals = ()
    sources: tuple[Source, ...] = ()
    pretrain: Stage = Stage()
    twin: Stage | None = None


def test_later_layers_win_and_mappings_merge_key_by_key(tmp_path: Path) -> None:
    base = write(tmp_path / "base.yaml", "pretrain: {steps: 5, mixture: {en: 1, zh: 2}, optimizer: {name: sgd}}")
    mine = write(tmp_path / "mine.yaml", "pretrain: {mixture: {zh: 4}}\nseed: 1")
    config = load(Root, [base, mine, {"seed": 2}], ["pretrain.mixture.code=8", "pretrain.steps=7"])
    assert config.pretrain.mixture == {"en": 1, "zh": 4, "code": 8}
    assert (config.seed, config.pretrain.steps, config.pretrain.optimizer.name) == (2, 7, "sgd")
    options = {"pretrain": {"optimizer": {"name": "sgd", "learning_rate": 1}}}
    for name, rate in (("sgd", 1), ("adamw", Root().pretrain.optimizer.learning_rate)):
        chosen = load(Root, [options, {"pretrain": {"optimizer": {"name": name}}}]).pretrain.optimizer
        assert (chosen.name, chosen.learning_rate) == (name, rate)
    assert load(Root, [write(tmp_path / "empty.yaml", "# nothing yet\n")]) == Root()
    assert load(Root, [write(tmp_path / "home.yaml", "inputs: [~/texts]")]).inputs == (f"{Path.home()}/texts",)


def test_numbers_and_words_are_those_of_yaml_1_2() -> None:
    """PyYAML takes 1e-3 for text, `on` for true, 12:30:45 for 45045 and 010 for 8."""
    for text in ("1e-3", "1E-3", "+1e-3", "1.e-3", "0.001", ".001", "1.0e-3"):
        assert parse_yaml(text) == 1e-3
    assert [parse_yaml(text) for text in ("0", "-17", "1_000", "0x1F", "0b11", "+2")] == [0, -17, 1000, 31, 3, 2]
    assert load(Root, [], ["pretrain.optimizer.learning_rate=1e-3"]).pretrain.optimizer.learning_rate == 1e-3
    for text in ("1e", "e3", "1.2.3", "sha-1e3", ".", "on", "off", "yes", "no", "On", "12:30:45", "1:30.5", "010"):
        assert parse_yaml(f"[{text}, true, False]") == [text, True, False]
        assert parse_yaml(f"{text}: 1") == {text: 1}


def test_a_list_is_overridden_whole_or_by_index_also_when_only_its_default_is_known() -> None:
    assert load(Root, [], ["pretrain.optimizer.betas=[0.8, 0.9]"]).pretrain.optimizer.betas == (0.8, 0.9)
    assert load(Root, [], ["pretrain.optimizer.betas.1=0.99"]).pretrain.optimizer.betas == (0.9, 0.99)
    layer = {"sources": [{"path": "a"}, {"path": "b"}]}
    assert load(Root, [layer], ["sources.1.weight=3"]).sources == (Source(path="a"), Source(path="b", weight=3))
    assert layer == {"sources": [{"path": "a"}, {"path": "b"}]}


@pytest.mark.parametrize(("overrides", "expected"), [
    (["inputs=notes.txt"], ("notes.txt",)), (["inputs=a.txt,b.jsonl, c"], ("a.txt", "b.jsonl", "c")),
    (["inputs=a.txt", "seed=3", "inputs=[b, c]"], ("a.txt", "b", "c")),
    (["inputs='a, b.txt'"], ("a, b.txt",)), (["inputs=2024,true"], ("2024", "true")),
    (["inputs=~/texts,~me"], (f"{Path.home()}/texts", "~me")), (["inputs=a", "inputs.0=b"], ("b",))])  # fmt: skip
def test_a_list_takes_one_value_or_several(overrides: list[str], expected: tuple[str, ...]) -> None:
    assert load(Root, [{"inputs": ["of the file"]}], overrides).inputs == expected
    assert load(Root, [], ["pretrain.optimizer.betas=0.8,1e-1"]).pretrain.optimizer.betas == (0.8, 0.1)


def test_an_optional_stage_is_switched_on_and_off() -> None:
    assert load(Root, [], ["twin.steps=3"]).twin == Stage(steps=3)
    assert load(Root, [{"twin": {"steps": 3}}], ["twin=null"]).twin is None
    assert load(Root, [{"twin": None}], ["twin.steps=3"]).twin == Stage(steps=3)


@pytest.mark.parametrize(("override", "words"), [
    ("seed", "'seed' is not of the form stage.field=value"),
    ("pretrain..steps=3", "not of the form"),
    ("pretrain.stepz=3", "pretrain.stepz.*pretrain.steps"),
    ("twin.stepz=3", "twin.stepz.*twin.steps"),
    ("pretrain.steps=many", "pretrain.steps is 'many', allowed: a whole number, such as 10"),
    ("sources.0.path=x", "sources has no item; or the whole list"),
    ("pretrain.optimizer.betas.2=1", "has 2 items; allowed: pretrain.optimizer.betas.0 to 1, or"),
    ("pretrain.mixture={en: [}", "broken YAML"),
    *((f"{field}={text}", rf"{re.escape(f'{field}={text}')}\b.*(finite )?number")
      for field in ("pretrain.mixture.en", "pretrain.optimizer.learning_rate")
      for text in (".inf", "-.inf", ".nan", "inf"))])
def test_a_wrong_override_is_named_with_what_is_allowed(override: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        load(Root, [], [override])
    assert override in str(raised.value)


@pytest.mark.parametrize(("override", "problem"), [
    ("flag=maybe", "flag is 'maybe', allowed: true or false"),
    ("share=many", "share is 'many', allowed: a number above 0, up to 1, such as 0.5"),
    ("share=0", "share is 0, allowed: a number above 0, up to 1, such as 0.5"),
    ("share=.nan", "share is NaN, allowed: a finite number"),
    ("count=", "count is empty (null), allowed: a whole number from 1 on, below 9, such as 3"),
    ("count=0", "count is 0, allowed: a whole number from 1 on, below 9, such as 3"),
    (f"count={2**63}", f"count is {2**63}, allowed: a smaller whole number"),
    ("which=c", "which is 'c', allowed: 'a' or 'b'"),
    ("names=[]", "names is [], allowed: a list of 1 or more"),
    ("names=a,b,c", 'names is ["a", "b", "c"], allowed: a list of 2 or less'),
    ("names={a: b}", "names is a mapping, allowed: a list, such as [a, b]"),
    ("pair=[1, 2, 3]", "pair is [1, 2, 3], allowed: a list of 2 or less"),
    ("table=x", "table is 'x', allowed: a mapping, such as {name: value}"),
    ("limit=x", "limit is 'x', allowed: a whole number, or null"),
    ("either=x", "either is 'x', allowed: a whole number, such as 1, or 'auto'"),
    ("deep=3", "deep is 3, allowed: a mapping of its fields (optimizer, mixture, steps), such as {steps: 10}")])
def test_every_kind_of_wrong_value_is_told_in_plain_words(override: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        load(Kinds, [], [override])
    assert str(raised.value).startswith(f"{override}: {problem}")


@pytest.mark.parametrize(("text", "words"), [
    ("seed: 3\npretrain:\n  steps: 5\n  optimiser:\n    name: x\n",
     r"/mine.yaml, line 4: pretrain\.optimiser .*pretrain\.optimizer"),
    ("seed: 3\npretrain:\n  steps: x5\n", "/mine.yaml, line 3: pretrain.steps is 'x5'"),
    ("seed: 3\npretrain: {steps: [1\n", "mine.yaml, line 3: broken YAML"),
    ("seed: 3\nseed: 4\n", r"line 2: seed is here twice \(before: line 1\)"),
    ("- 1\n", "holds list, allowed: a mapping"),
    ("a: &a [*a]\n", "nested deeper"),
    ("a: !!python/object:os.system x\n", "line 1: broken YAML"),
    ("seed: 3\nname: a\x07b\n", r"mine.yaml, line 2 has the character '.x07', allowed: text in UTF-8"),
    ('seed: 3\nname: "a\\ud800b"\n', r"mine.yaml, line 2: name has the character '.ud800', allowed: text"),
    ("a: " + "[" * 5000, "nested deeper than 50 levels"),
    ("a: &a [1]\n" + "".join(f"{y}: &{y} [{', '.join([f'*{x}'] * 20)}]\n" for x, y in pairwise("abcdef")),
     "line [0-9]: more than 200,000 values")])
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path / "mine.yaml", text)
    with pytest.raises(InputError, match=words):
        load(Root, [file])


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/dev/zero has more than 10,000,000 bytes, allowed: a file of YAML"):
        load(Root, [Path("/dev/zero")])
    with pytest.raises(InputError, match=r"caf.udce9.* has the character '.udce9', allowed: text in UTF-8 without"):
        load(Root, [], ["inputs=caf\udce9.txt"])
    with pytest.raises(InputError, match=r"cannot read .*absent\.yaml: No such file"):
        load(Root, [tmp_path / "absent.yaml"])
    (tmp_path / "binary.yaml").write_bytes(b"seed: \xff\xfe")
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 6\)"):
        load(Root, [tmp_path / "binary.yaml"])
