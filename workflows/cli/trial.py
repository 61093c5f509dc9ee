"""A filter tried on files at once, without a run: its decisions, scores, and what it repairs."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import isnan

from argosy.core.errors import InputError
from argosy.core.lazy import np
from argosy.core.step.machine import usable_gpus
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model_paths import find_models
from argosy.corpus.cleaning.filter import Filter, Resources
from argosy.corpus.cleaning.filters import FILTERS, make_filters, parse_filters
from argosy.corpus.cleaning.filters.decontamination import Decontamination
from argosy.corpus.cleaning.report.explain import Look, looks, shown
from argosy.corpus.cleaning.scoring import KEPT, decide, score
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.reading import read_file
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import SourceConfig
from argosy.corpus.text.display import visible
from steps.clean import CleanConfig
from steps.measure import MeasureConfig

_LOOK = 100  # characters of a text that are shown
_COMPARES = ("a run compares documents with its corpus and benchmarks for it; then `argosy data dropped FILTER` shows "
             "what went")


def tried(given: str, files: Sequence[str], most: int) -> Iterator[str]:
    """Yield what the filters that `given` names say of files, in lines: the counts, and `most` documents, those that
    go first. Raises InputError: there is no such filter or no document, or it cannot judge a file alone."""
    config, left_out = _filters(given)
    documents = list(_documents(files, most))
    if not documents:
        raise InputError(f"{', '.join(files)}: there is no document to try the filter on")
    filters = make_filters(config.filters, _resources(config, documents))
    scored = score(Batch(documents), filters)
    codes, reasons = decide(filters, scored.scores, np.array([document.channel for document in documents]))
    counts = Counter("kept" if code == KEPT else reasons[code][1] for code in codes.tolist())
    repaired = [document.text for document in scored.batch.documents]
    changed = sum(text != document.text for text, document in zip(repaired, documents, strict=True))
    yield f"{len(documents)} documents: " + ", ".join(f"{count} {name}" for name, count in counts.most_common())
    yield from [f"{changed} texts changed"] if changed else []
    yield from [f"not tried: {', '.join(left_out)}: {_COMPARES}"] if left_out else []
    first = sorted(range(len(documents)), key=lambda at: (codes[at] == KEPT, repaired[at] == documents[at].text, at))
    for at in first[:most]:
        document = documents[at]
        yield f"{document.id}  {'kept' if codes[at] == KEPT else reasons[codes[at]][1]}"
        yield from _change(document.text, repaired[at])
        yield from table(looks(filters, scored.scores, document.channel, at))


def _filters(given: str) -> tuple[CleanConfig, list[str]]:
    """Parse the filters to try; those that cannot judge a file alone come back by name. Raises InputError."""
    import yaml

    try:
        every = CleanConfig(filters=parse_filters([yaml.safe_load(given)])).filters
    except yaml.YAMLError:
        raise InputError(f"{given!r} is not a filter: give a name, or an object such as "
                         "'{name: gopher_quality, min_words: 50}'") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    # those that decide by a document alone, without copies or items of a run's benchmarks
    alone = tuple(one for one in every if FILTERS[one.name].keys is Filter.keys and one.name != Decontamination.name)
    left_out = [one.name for one in every if one not in alone]
    if not alone:
        raise InputError(f"{', '.join(left_out)} cannot be tried on files alone: {_COMPARES}")
    return CleanConfig(filters=alone), left_out


def _change(before: str, after: str) -> Iterator[str]:
    """Show a text: where it begins, or around the first place where a repair changed it, before and after."""
    if before == after:
        yield f"  {beginning(before)}"
        return
    at = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    begin = max(0, at - _LOOK // 4)
    yield f"  before: {beginning(before[begin:])}"
    yield f"  after:  {beginning(after[begin:])}"


def beginning(text: str) -> str:
    return " ".join(text[: 10 * _LOOK].split())[:_LOOK]


def table(found: Iterable[Look]) -> Iterator[str]:
    """Write a line a rule; rules whose score says nothing of the document are counted."""
    for label, group in groupby(found, key=lambda look: look.label):
        every = list(group)
        told = [look for look in every if look.broken or not isnan(look.value)]
        head = label
        for look in told:
            mark = "skipped" if look.skipped else "DROPS" if look.broken else ""
            yield f"  {head:20} {look.score:28} {shown(look.value):>10}  {look.limit:24} {mark}".rstrip()
            head = ""
        if silent := len(every) - len(told):
            yield f"  {head:20} {silent} {'others do' if told else 'scores do'} not apply to it"


def _resources(config: CleanConfig, documents: list[Document]) -> Resources:
    """Make what a filter may need of the documents themselves and of models where they lie."""
    places = find_models(config.filters, ())
    asking = tuple(one for one in config.filters if FILTERS[one.name].measured)
    if not asking:
        return Resources(sample=documents, models=places)
    from argosy.model.infer.documents import Models

    settled = MeasureConfig(filters=asking, dtype=config.model_dtype).settled(gpu=bool(usable_gpus()))
    return Resources(sample=documents, models=places, torch=Models(places, dtype=settled.dtype))


def _documents(paths: Sequence[str], most: int) -> Iterator[Document]:
    """Yield the documents of files, and say of the first `most` records that are none, and how many more there are."""
    config, counts = SourceConfig(), Counts()
    others = 0
    for file in list_inputs(paths, config)[0]:
        for item in read_file(file, config, counts):
            if isinstance(item, Document):
                yield item
                continue
            others += 1
            if others <= most:
                print(visible(f"{item.file}:{item.line} is no document: {item.reason}"), file=sys.stderr)
    if others > most:
        print(f"{others - most} more are no documents", file=sys.stderr)
