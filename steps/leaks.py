"""Proof that held-out text is not in the training data: the n-grams of each held-out document are looked up in every
document and record that is trained on.

    python -m steps.leaks --config '{"documents": "...", "scored": ["..."], "tokenized": "..."}' --out DIR

It stands after `tokenize`, whose split it proves as it was made, beside pretraining, which need not wait for it. Held
out are the documents that tokenize has set aside, and raw text that suites name (`heldout.texts`). Writes
`leaks.jsonl`, a line a held-out document that is there in part or whole (docs/evaluation.md)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from argosy.core.config.explain import grouped
from argosy.core.config.schema import Config, DocumentsDir, Externals, TokensDir, Upstream, Upstreams
from argosy.core.errors import InputError
from argosy.core.statistics.metric import Metric, share
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import json_text, write_atomic
from argosy.core.store.step_files import given_directory, read_done
from argosy.evidence.results.suite import NoFileError, WithSuites, load_suite, locate

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kept import KeptCorpus
    from argosy.corpus.cleaning.leaks import HeldoutIndex, Leak
    from argosy.corpus.data.schemas import Document

LEAKS = "leaks.jsonl"
_RECORDS = ("instructions", "preferences", "feedback", "prompts")  # what post-training learns of a data step
_CHARACTERS = 2_000_000  # of documents that are looked at together


class LeaksConfig(WithSuites):
    """Config of the step."""

    documents: DocumentsDir = ""
    """directory of a clean step"""
    scored: Upstreams = ()
    """directories of the score steps that the clean step has gathered, in their order"""
    tokenized: TokensDir = ""
    """directory of the tokenize step, whose held-out documents are looked for"""
    data: Upstream = ""
    """directory of a data step, whose records for post-training are looked at too; "" for none"""
    made: Upstreams = ()
    """directories of synthesize steps, whose records are looked at too"""
    suites: Externals = ()
    """suites (YAML) whose `heldout.texts` are looked for too"""
    suite_files: Externals = ()
    """files whose bytes count; those that `suites` names are added"""
    bytes_per_channel: int = Field(1_000_000, ge=1)
    """bytes of held-out text of each channel that are looked for; whole documents, by their hash"""
    passage: int = Field(50, ge=26)
    """words of a passage, two Han characters counting as one"""
    similarity: Annotated[float, Field(gt=0.5, le=1)] = 0.75
    """share of a passage's words that an edited copy has left"""


class LeaksOutputs(Config):
    """Counts by set of held-out text: the channel, or `suite/channel`."""

    leaks: str
    sets: dict[str, dict[str, int]]
    """heldout: documents; checked: those that were looked for; leaked: those with a passage in training data; whole:
    those with half of their passages or more there; passages, found: passages of those checked, and those found"""
    looked_at: dict[str, int]
    """documents and records of the training data, by channel or file"""


def run(config: LeaksConfig, context: StepContext) -> LeaksOutputs:
    """Look held-out documents up in all training data. Raises InputError: a directory is absent or unfinished, or a
    suite's text cannot be read."""
    from argosy.corpus.cleaning.kept import KeptCorpus
    from argosy.corpus.cleaning.leaks import HeldoutIndex, chosen, read_sets

    corpus = KeptCorpus.of(config.documents, config.scored)
    tokenized = given_directory("tokenized", config.tokenized, "tokenize")
    heldout = _heldout_names(corpus, tokenized)
    own: dict[str, list[Document]] = {channel: [] for channel, names in heldout.items() if names}
    for document in corpus.documents():
        if document.id in heldout[document.channel]:
            own[document.channel].append(document)
    for file in config.suites:
        own |= read_sets(_texts(file, config.data), Path(file).stem)
    wanted = chosen(own, config.bytes_per_channel)
    names = [name for name, some in wanted.items() for _ in some]
    index = HeldoutIndex([d for some in wanted.values() for d in some], config.passage, config.similarity)
    looked_at: dict[str, int] = {}
    training = _training(corpus, heldout, config, looked_at)
    found = list(_find(index, training, context, sum(corpus.sizes().values())))
    write_atomic(context.out / LEAKS, "".join(json_text(row) + "\n" for row in _rows(index, names, found)))
    sets = _count(index, names, found, {name: len(some) for name, some in own.items()})
    for name, count in sets.items():
        print(f"{name}: {count['leaked']} of {count['checked']} held-out documents have a passage in training data, "
              f"{count['whole']} half of theirs or more ({count['heldout']} are held out)", flush=True)
    context.tracker.metrics({f"leaks/{what}/{name}": value for name, count in sets.items() for what, value in (
        ("share", count["leaked"] / max(1, count["checked"])), ("checked", float(count["checked"])))}, step=0)
    return LeaksOutputs(leaks=LEAKS, sets=sets, looked_at=looked_at)


def _texts(suite: str, data: str) -> list[tuple[str, str]]:
    """List the held-out texts of a suite: channel ("": of each record or folder) and path. One whose file is absent is
    left out, as its evaluation fails."""
    texts = (load_suite(suite).heldout or {}).get("texts") or {}
    found = []
    for channel, path in texts.items() if isinstance(texts, dict) else [("", texts)]:
        try:
            found.append((channel, str(locate(path, data, "heldout.texts"))))
        except NoFileError as error:
            print(f"not looked for: {error}", flush=True)
    return found


def _heldout_names(corpus: "KeptCorpus", tokenized: Path) -> dict[str, frozenset[str]]:
    """Return by channel the ids that the tokenize step has held out, by its own rule and config."""
    config = (read_done(tokenized) or {"made_from": {"config": {}}})["made_from"]["config"]
    if "heldout_share" not in config:
        raise InputError(f"tokenized: {tokenized} does not say what it has held out: tokenize again")
    return corpus.heldout(config["heldout_share"], config["heldout_least"])


def _training(corpus: "KeptCorpus", heldout: dict[str, frozenset[str]], config: LeaksConfig,
              looked_at: dict[str, int]) -> "Iterator[Document]":
    """Yield each document that is trained on, and each record for post-training as one; counts them."""
    from argosy.corpus.cleaning.batch import record_text
    from argosy.corpus.data.jsonl import read_jsonl
    from argosy.corpus.data.schemas import Document

    for document in corpus.documents():
        if document.id not in heldout[document.channel]:
            looked_at[document.channel] = looked_at.get(document.channel, 0) + 1
            yield document
    made = [(given_directory("made", each, "synthesize"), f"{Path(each).name}/") for each in config.made]
    if unfinished := [str(directory) for directory, _ in made if not read_done(directory)]:
        raise InputError(f"made: {unfinished[0]} is not finished: run its synthesize step first")
    for directory, place in [*([(Path(config.data), "")] if config.data else []), *made]:
        for file in (directory / f"{name}.jsonl" for name in _RECORDS if (directory / f"{name}.jsonl").is_file()):
            for line, record in enumerate(read_jsonl(file), 1):
                looked_at[place + file.name] = line
                yield Document(f"{place}{file.name}:{line}", record_text(record), file.stem)


def _find(index: "HeldoutIndex", documents: "Iterable[Document]", context: StepContext, size: int) -> "Iterator[Leak]":
    from argosy.corpus.cleaning.batch import batches

    done = 0
    for batch in batches(documents, _CHARACTERS):
        yield from index.find(batch, [document.id for document in batch.documents])
        done += sum(map(len, batch.texts))
        context.progress.update(done, max(size, done), "characters")


def _rows(index: "HeldoutIndex", names: list[str], found: "list[Leak]") -> list[dict[str, Any]]:
    """Describe each held-out document that is in training data, those that are there whole first."""
    rows = []
    for number, own in grouped((leak.document, leak) for leak in found).items():
        best = max(own, key=lambda leak: (leak.overlap, leak.place))
        rows.append({"set": names[number], "id": index.documents[number].id,
                     "share": round(len({leak.passage for leak in own}) / index.counts[number], 4),
                     "in": sorted({leak.place for leak in own})[:5], "match": best.match, "overlap": best.overlap,
                     "passage": index.passages[best.passage][1]})
    return sorted(rows, key=lambda row: (row["set"], -row["share"], row["id"]))


def _count(index: "HeldoutIndex", names: list[str], found: "list[Leak]",
           heldout: dict[str, int]) -> dict[str, dict[str, int]]:
    there: dict[int, set[int]] = {}
    for leak in found:
        there.setdefault(leak.document, set()).add(leak.passage)
    counts = {}
    for name, total in sorted(heldout.items()):
        own = [n for n, each in enumerate(names) if each == name and index.counts[n]]
        counts[name] = {"heldout": total, "checked": len(own), "leaked": sum(n in there for n in own),
                        "whole": sum(2 * len(there.get(n, ())) >= index.counts[n] for n in own),
                        "passages": sum(index.counts[n] for n in own),
                        "found": sum(len(there.get(n, ())) for n in own)}
    return counts


STEP = Step("leaks", LeaksConfig, run,
            after={"documents": "clean", "scored": "score", "tokenized": "tokenize", "data": "data"},
            also={"made": "synthesize"}, version=3,
            metrics={"leaks/share/*": share("lower"), "leaks/checked/*": Metric("neither", "documents")})

if __name__ == "__main__":
    main(STEP)
