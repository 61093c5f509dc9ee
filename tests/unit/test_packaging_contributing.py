"""The snippets of CONTRIBUTING.md are whole files that work (its filter: steps/test_clean.py)."""

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from argosy.step.command import main

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)


def load(marker: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The snippet that holds `marker`, as a module."""
    [source] = [block for block in BLOCKS if marker in block]
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def test_the_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    from evals.chain import Chain
    from evals.items import Item
    from evals.variants import NotApplicable

    module = load("ReversedOptions", "reversed_options", monkeypatch)
    item = Item(id="1", lang="en", question="?", choices=("a", "b", "c", "d"), answer=0)
    chain = Chain("reversed", (module.ReversedOptions(),))
    [draft] = chain.drafts(item, 0)
    assert (draft.choices, draft.gold, draft.origin) == (("d", "c", "b", "a"), 3, (3, 2, 1, 0))
    assert draft.render(None).prompt.startswith("?\nA. d B. c C. b D. a")
    last = Item(id="2", lang="en", question="?", choices=("a", "b", "All of the above"), answer=2)
    with pytest.raises(NotApplicable):
        chain.drafts(last, 0)


def test_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    module = load("(Probe)", "certainty", monkeypatch)
    model = SimpleNamespace(text_loglikelihood=lambda texts: [SimpleNamespace(logprob=0.0, tokens=3) for _ in texts])
    found = module.Certainty(name="c", texts=("a", "b")).measure(model, SimpleNamespace(limit=None))
    assert found.measures["probability"].value == 1.0
    assert [row["id"] for row in found.rows] == ["0", "1"]


def test_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from argosy.store.step_files import read_outputs

    module = load('Step("count_words"', "steps.count_words", monkeypatch)
    documents = tmp_path / "clean" / "documents"
    documents.mkdir(parents=True)
    line = '{"id": "1", "text": "two words", "channel": "en", "lang": "en", "source": "test", "metadata": {}}\n'
    (documents / "en.jsonl").write_text(line)
    config = module.CountWordsConfig(documents=str(tmp_path / "clean")).model_dump_json()
    with pytest.raises(SystemExit) as done:
        main(module.STEP, ["--config", config, "--out", str(tmp_path / "out")])
    assert done.value.code == 0
    assert read_outputs(tmp_path / "out") == {"words": {"en": 2}}
