"""Held-out text in training data: each planted leak is found, verbatim and with one in ten words changed, and nothing
in clean documents of the same books and journals; the step proves the split that tokenize made."""

import json
import random
import re
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.corpus.cleaning.batch import batches
from argosy.corpus.cleaning.leaks import LEAST, HeldoutIndex, Leak, chosen, passages
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.split import heldout_ids
from argosy.corpus.tokens.tokenizer import save_tokenizer, train_tokenizer
from argosy.evidence.report.pipeline import notes_of_leaks, read_stages
from argosy.evidence.results.suite import find_suite
from steps import leaks, tokenize
from tests.cleaning_fixtures import cleaned, make_data
from tests.comparison_fixtures import node
from tests.shared_data import shared
from tests.step_fixtures import run_step

_COMMENT = re.compile(r"<!--.*?-->|\{\{.*?\}\}|</?Listing.*?>", re.DOTALL)  # the book has whole ones twice
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")


def changed(text: str, share: float, rng: random.Random, words: list[str]) -> str:
    """A share of the words, or of the Han characters, is another one."""
    found = list(_WORD.finditer(text))
    for one in sorted(rng.sample(found, round(share * len(found))), key=lambda m: -m.start()):
        han = "\u3400" <= one[0] <= "\u9fff"
        other = rng.choice([word for word in rng.sample(words, 20) if ("\u3400" <= word <= "\u9fff") == han] or ["x"])
        text = text[: one.start()] + other + text[one.end() :]
    return text


def find(held: list[str], texts: list[str]) -> list[Leak]:
    index = HeldoutIndex([Document(str(n), text, "held") for n, text in enumerate(held)])
    documents = (Document(str(n), text, "web") for n, text in enumerate(texts))
    return [leak for batch in batches(documents, 500_000)
            for leak in index.find(batch, [document.id for document in batch.documents])]  # fmt: skip


@pytest.fixture(scope="module")
def books() -> tuple[list[str], list[str]]:
    """200 documents that are held out, and 2,000 others of the same sources: half of them Chinese abstracts, half of
    them pieces of English books of 120 words (held out and others of other chapters: within one, whole ones recur)."""
    lines = [line for path in sorted(shared("zh_csl").glob("*__ts__*.tsv"))
             for line in path.read_text(encoding="utf-8").splitlines()]
    zh = list(dict.fromkeys(line.split("\t")[1] for line in lines))
    zh = [text for text in zh if len(_WORD.findall(text)) >= 60][:1100]
    en: list[list[str]] = [[], []]
    for number, path in enumerate(sorted([*shared("en_rustbook").glob("src__ch*.md"),
                                           *shared("en_tinyshakespeare").glob("*.txt")])):  # fmt: skip
        words = _COMMENT.sub("", path.read_text(encoding="utf-8")).split(" ")
        en[number % 8 == 1] += [" ".join(words[at : at + 120]) for at in range(0, len(words) - 120, 120)]
    for some in en:
        random.Random(0).shuffle(some)
    assert (len(zh), len(en[0]) >= 1000, len(en[1]) >= 100) == (1100, True, True)
    return zh[:100] + en[1][:100], zh[100:] + en[0][:1000]


def test_planted_leaks_are_found_and_nothing_in_clean_documents(books: tuple[list[str], list[str]]) -> None:
    held, clean = books
    rng = random.Random(1)
    words = sorted({word for text in held for word in _WORD.findall(text)})
    for share in (0.0, 0.1):
        planted = [f"{clean[n]}\n\n{changed(text, share, rng, words)}\n\n{clean[-1 - n]}"
                   for n, text in enumerate(held)]  # fmt: skip
        found = find(held, planted)
        assert {(leak.document, int(leak.place)) for leak in found} == {(n, n) for n in range(200)}
    assert [(held[leak.document], clean[int(leak.place)]) for leak in find(held, clean)] == []


def test_a_passage_is_some_fifty_words_and_a_short_text_is_nobodys() -> None:
    text = " ".join(f"w{n}" for n in range(520))
    pieces = passages(text, 50)
    assert "".join(pieces) == text
    assert {round(len(piece.split()), -1) for piece in pieces} == {50}
    assert [len(piece) for piece in passages("中" * 210, 50)] == [105, 105]
    assert passages(" ".join("abc"[n % 3] for n in range(LEAST - 1)), 50) == []
    assert find(["too short"], ["too short"]) == []
    assert find([], [text]) == []


def test_a_quotation_of_a_sentence_is_no_leak_and_half_a_passage_is() -> None:
    held = " ".join(f"h{n}" for n in range(50))
    words = held.split()
    around = [" ".join(f"{side}{n}" for n in range(100)) for side in "ab"]
    assert find([held], [" ".join([around[0], *words[:20], around[1]])]) == []
    assert find([held], [" ".join([around[0], *words[:35], around[1]])])


def test_held_out_documents_are_chosen_by_hash_up_to_the_bytes() -> None:
    some = {"a": [Document(str(n), "x" * 100, "a") for n in range(50)], "b": []}
    assert [len(each) for each in chosen(some, 1000).values()] == [10]


def test_the_step_proves_the_split_of_tokenize(tmp_path: Path) -> None:
    rng = random.Random(2)
    vocabulary = [f"word{n}" for n in range(3000)]
    texts = {f"web-{n}": " ".join(rng.choices(vocabulary, k=150)) for n in range(60)}
    held = sorted(heldout_ids(texts, 0.02, 8))
    train = sorted(texts.keys() - set(held))
    copies = {held[0]: texts[held[0]], held[1]: changed(texts[held[1]], 0.1, rng, vocabulary)}
    for (_, copy), into in zip(copies.items(), train, strict=False):
        texts[into] += "\n" + copy
    general = find_suite("general")
    texts[train[6]] += "\n" + next(each["text"] for each in read_jsonl(general.with_suffix(".jsonl")))
    documents = [Document(name, text, "web") for name, text in texts.items()]
    cleaned(tmp_path, make_data(tmp_path, documents), shards=2, filters=["unicode"])
    with JsonlWriters(tmp_path) as writers:
        record = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": texts[held[2]]}]}
        writers.write_all("instructions", [record])
    made = node(tmp_path, "better", "synthesize", {}, {"file": "preferences.jsonl"})
    pair = {"prompt": [], "chosen": [{"role": "assistant", "content": "a"}], "rejected": [
        {"role": "assistant", "content": texts[held[3]]}]}
    (made / "preferences.jsonl").write_text(json.dumps(pair) + "\n")
    (tmp_path / "own.jsonl").write_text(json.dumps({"text": texts[train[5]]}) + "\n")
    (tmp_path / "mine.yaml").write_text("heldout: {texts: {own: own.jsonl, lost: lost.jsonl}}\n")
    save_tokenizer(train_tokenizer([*texts.values()], 400, split_han=True), tmp_path / "tokenizer")
    corpus = {"documents": str(tmp_path / "clean"), "scored": [str(tmp_path / f"score-{n}") for n in range(2)]}
    config = tokenize.TokenizeConfig(**corpus, tokenizer=str(tmp_path))
    outputs = run_step(tokenize.STEP, config, tmp_path / "tokens")
    tokens = node(tmp_path, "tokenize", "tokenize", config.model_dump(mode="json"), outputs)
    wired = leaks.LeaksConfig(**corpus, tokenized=str(tokens), data=str(tmp_path), made=[str(made)],
                              suites=[str(tmp_path / "mine.yaml"), str(general)])  # fmt: skip
    assert str(tmp_path / "own.jsonl") in wired.suite_files
    found = run_step(leaks.STEP, wired, tmp_path / "leaks")
    assert found["sets"]["web"] == {"heldout": 8, "checked": 8, "leaked": 4, "whole": 4, "passages": 24, "found": 12}
    assert found["sets"]["mine/own"]["leaked"] == 1
    shipped = {name: count["leaked"] for name, count in found["sets"].items() if name.startswith("general/")}
    assert [name for name, leaked in shipped.items() if leaked] == ["general/encyclopaedia_en"]
    assert len(shipped) == 8
    assert found["looked_at"] == {"web": 52, "instructions.jsonl": 1, f"{made.name}/preferences.jsonl": 1}
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "leaks" / leaks.LEAKS) if row["set"] == "web"}
    assert [rows[name]["in"] for name in held[:4]] == [[train[0]], [train[1]], ["instructions.jsonl:1"],
                                                           [f"{made.name}/preferences.jsonl:1"]]
    (note,) = notes_of_leaks(read_stages([node(tmp_path, "leaks", "leaks", {}, found)]))
    assert "4 of 8 of web (4 at least half)" in note
    clean = {**found, "sets": {"web": {**found["sets"]["web"], "leaked": 0}}}
    (note,) = notes_of_leaks(read_stages([node(tmp_path, "leaks", "leaks", {"n": 1}, clean)]))
    assert note.startswith("None of 8 held-out documents")
    measured = node(tmp_path, "evaluate", "evaluate", {}, {"metrics": {"heldout/bpb/en": 1.0}})
    (note,) = notes_of_leaks(read_stages([measured, tokens]))
    assert note.endswith("the stage leaks needs clean, which this pipeline does not have.")
    with pytest.raises(InputError, match="tokenize again"), pytest.warns(UserWarning, match="broken"):
        run_step(leaks.STEP, wired.model_copy(update={"tokenized": str(tmp_path / "clean")}), tmp_path / "other")
