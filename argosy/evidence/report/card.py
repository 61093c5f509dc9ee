"""A model card in the form of the Hugging Face hub, made of what a run has recorded: nothing is in it that no step has
measured or was told."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.core.store.files import read_record
from argosy.core.store.provenance import flat
from argosy.core.store.step_files import NODE
from argosy.corpus.cleaning.kept import REPORT, KeptCorpus
from argosy.evidence.compare.changes import compare
from argosy.evidence.compare.checkpoints import HELDOUT, read_checkpoints
from argosy.evidence.compare.words import value_text
from argosy.evidence.report.pipeline import KEY_SETTINGS
from argosy.evidence.results.contamination import WORDS
from argosy.model.weights.checkpoint import Checkpoint, base_of
from argosy.model.weights.pretrained import load_config


@dataclass(frozen=True)
class Sources:
    """Directories that a card is made of, as far as there are some.

    Attributes:
        evaluations: evaluations of the checkpoint.
        clean: a clean step, whose documents it was trained on; `scored`: its score steps."""

    evaluations: Sequence[str] = ()
    clean: str = ""
    scored: Sequence[str] = field(default=())


def model_card(checkpoint: Checkpoint, sources: Sources, licence: str) -> str:
    """Write the card of a checkpoint. `licence`: of the model, "" where nobody has said."""
    head = ["library_name: transformers", "pipeline_tag: text-generation", "tags: [argosy]"]
    parts = ["\n".join(["---", *([f"license: {licence}"] if licence else []), *head, "---"]),
             "\n".join(_about(checkpoint)), *_results(sources.evaluations), *_data(sources)]
    return "\n\n".join(parts) + "\n"


def _about(checkpoint: Checkpoint) -> Iterator[str]:
    config = load_config(checkpoint.path)
    made = f", stage {checkpoint.stage}" if checkpoint.stage else ""
    yield f"# {checkpoint.stage or checkpoint.name}"
    yield ""
    yield (f"A {config.model_type} model of {config.num_hidden_layers} layers, {config.hidden_size} wide, with a "
           f"vocabulary of {config.vocab_size:,} and {config.max_position_embeddings:,} positions{made}, trained on "
           f"{checkpoint.tokens:,} tokens. Made with Argosy.")
    yield from _training(checkpoint)


def _training(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield a table of the stages of its training, the last first."""
    rows: list[list[str]] = []
    at: Checkpoint | None = checkpoint
    while at is not None and len(rows) < 20:
        settings = dict(flat(read_record(at.path.parent.parent / NODE).get("config", {})))
        told = [f"{key} {settings[key]}" for key in KEY_SETTINGS if settings.get(key) not in (None, "", {}, [])]
        rows.append([at.stage or at.name, f"{at.tokens:,}", ", ".join(told) or "–"])
        at = base_of(at)
    yield from ("", "## Training", "", *table(["stage", "tokens so far", "settings"], rows))


def _results(evaluations: Sequence[str]) -> Iterator[str]:
    found = read_checkpoints((), evaluations)
    rows = [[task.task, f"{100 * each.headline:.1f} %", _interval(each.interval, 100, ".1f"), f"{each.items:,} items"]
            for task in compare(found).tasks for each in task.standings]
    for c in found.evaluated:
        for name in sorted(name for name in c.metrics if name.startswith(HELDOUT)):
            rows.append([f"bits per byte of {name.removeprefix(HELDOUT)}", value_text(c.kind(name), c.metrics[name]),
                         _interval(c.interval(name), 1, ".3f"), f"{c.counts.get(name, 0):,} documents"])
    about = "On text and items that were held out; benchmarks as the mean of their forms." if rows else "Not evaluated."
    yield "\n".join(["## Evaluation", "", about])
    if rows:
        yield "\n".join(table(["metric", "value", "95 % interval", "of"], rows))
    seen = [[task, WORDS[each.verdict], each.interval] for c in found.evaluated
            for task, each in sorted(c.seen.items())]
    if seen:
        yield ("## Contamination\n\nWhether a benchmark was in the training text, by how the model answers altered "
               "forms of it (0: as clean models).")
        yield "\n".join(table(["benchmark", "verdict", "score"], seen))


def _interval(bounds: tuple[float, float] | None, scale: float, digits: str) -> str:
    return f"{scale * bounds[0]:{digits}} to {scale * bounds[1]:{digits}}" if bounds else "–"


def _data(sources: Sources) -> Iterator[str]:
    if not sources.clean:
        yield "## Data\n\nNot recorded: the model came from elsewhere."
        return
    report = read_record(Path(sources.clean) / REPORT)
    licences = KeptCorpus.of(sources.clean, sources.scored).licences()
    rows = []
    for channel, counts in sorted(report["channels"].items()):
        known = licences.get(channel, Counter())
        rows.append([channel, f"{counts['out']:,} of {counts['in']:,}", f"{counts['bytes_out']:,}",
                     ", ".join(f"{name or 'not recorded'} ({count:,})" for name, count in sorted(known.items())) or "–",
                     _dropped(counts["dropped"])])
    yield "\n".join(["## Data", "", *table(["channel", "documents", "bytes", "licences", "dropped by filters"], rows)])


def _dropped(reasons: Mapping[str, Mapping[str, int]]) -> str:
    found = {name: sum(each.values()) for name, each in reasons.items()}
    return ", ".join(f"{name} {count:,}" for name, count in sorted(found.items(), key=lambda f: -f[1]) if count) or "–"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    for row in (columns, ["---"] * len(columns), *rows):
        cells = [str(cell).replace("|", r"\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
