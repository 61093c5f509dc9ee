"""Chinese in the terminal and in pages: texts are translated, translations used, English is as it was."""

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from argosy.core.language import catalogue
from argosy.evidence.report.cleaning import cleaning_page
from steps.compare import STEP, CompareConfig
from tests.command_line import Argosy
from tests.html_tags import TagReader
from tests.report_fixtures import CLEANING, make_store
from tests.step_fixtures import run_step

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = ROOT / "argosy/evidence/report/templates"
COMMANDS = ("run", "plan", "status", "compare", "evaluate", "generate", "chat", "serve", "submit", "doctor")
CHINESE = re.compile("[一-鿿]")
ENGLISH = re.compile(r"\b(?:a|an|and|are|by|for|from|in|is|it|its|no|not|of|on|or|than|that|the|was|which|with)\b")
KNOWN = "Argosy Benjamini Hochberg Holm MB MLflow backward comparison forward json nats token"  # the same in Chinese


def helps(argosy: Argosy) -> list[str]:
    return [argosy(*command, "--help").out for command in ([], *([name] for name in COMMANDS))]


def test_help_is_translated_and_its_translations_are_used(argosy: Argosy, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, say = set[str](), catalogue("help")
    monkeypatch.setattr("workflows.cli.catalogue", lambda *_: lambda text: heard.add(text) or say(text))
    helps(argosy)
    assert not {text for text in heard if not CHINESE.search(say(text))}
    assert not say.exact.keys() - heard
    assert not [pattern for pattern, _ in say.patterns if not any(re.match(pattern, text) for text in heard)]


def test_english_help_is_what_argparse_writes(argosy: Argosy, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = helps(argosy)
    monkeypatch.setattr("workflows.cli.Help", lambda _, **options: argparse.RawDescriptionHelpFormatter(**options))
    assert ours == helps(argosy)


@pytest.mark.parametrize(("variables", "found"), [
    ({}, "en"), ({"LANG": "zh_CN.UTF-8"}, "zh"), ({"LANG": "de_DE.UTF-8"}, "en"), ({"ARGOSY_LANG": "zh"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"), ({"LC_ALL": "zh_TW", "ARGOSY_LANG": "en"}, "en"),
    ({"ARGOSY_LANG": "fr"}, "")])
def test_the_environment_chooses(variables: dict[str, str], found: str, argosy: Argosy,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARGOSY_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.setenv(name, variables.get(name, ""))
    shown = argosy("--help", code=0 if found else 2)
    assert bool(CHINESE.search(shown.out)) == (found == "zh")
    assert found or "ARGOSY_LANG is 'fr', allowed: en, zh" in shown.err


class Words(TagReader):
    """Texts that a reader of a page meets, without those of the data."""

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "pre", "code"} & set(self.open):
            self.text.append(" ".join(data.split()))

    def found(self) -> set[str]:
        kinds = {"title", "aria-label", "placeholder"}
        return {*filter(None, (*self.text, *(each[kind] for _, each in self.tags for kind in kinds & each.keys())))}


def test_pages_are_translated_alike_in_python_and_browser(tmp_path: Path, argosy: Argosy) -> None:
    store = make_store(tmp_path, items=40)
    data = "".join([KNOWN, json.dumps(CLEANING), *(file.read_text() for file in tmp_path.rglob("outputs.json"))])
    names = set(re.findall("[A-Za-z_]{2,}", data.replace("_", " ") + data))
    spaced = re.compile("|".join(sorted((name.replace("_", " ") for name in names if "_" in name), key=len)[::-1]))
    run_step(STEP, CompareConfig.model_validate(store.config()), tmp_path / "compare")
    argosy("compare", *store.checkpoints[-3:], "--store", str(tmp_path), "--html", str(tmp_path / "page.html"))
    pages = [*((tmp_path / name).read_text() for name in ("compare/report.html", "page.html")), cleaning_page(CLEANING)]
    said = {text: catalogue("pages")(text) for page in pages for text in Words(page).found()}
    left = {text: spaced.sub("", shown) for text, shown in said.items()}
    assert not [text for text, shown in left.items() if ENGLISH.search(shown) or not (
        CHINESE.search(shown) or set(re.findall("[A-Za-z_]{2,}", shown)) <= names)]
    if node := shutil.which("node"):  # no browser is needed to run the translation alone
        script = pages[0].rpartition("<script>")[2].partition("</script>")[0]
        script += f"\nconsole.log(JSON.stringify({json.dumps([*said])}.map(translate)))"
        shown = subprocess.run([node, "-"], input=script, capture_output=True, text=True, check=True).stdout
        assert json.loads(shown) == [*said.values()]
