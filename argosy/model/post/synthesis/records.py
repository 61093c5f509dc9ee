"""Records made of chosen answers: written as the data step writes its own, with where they are from."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from argosy.core.errors import StepError
from argosy.corpus.cleaning.records import Curation, curate
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.schemas import assistant
from argosy.corpus.data.split import derive_seed, permuted_index
from argosy.model.post.rl.prompts import as_text
from argosy.model.post.rl.reward import Prompt
from argosy.model.post.synthesis.config import SynthesisConfig
from argosy.model.post.synthesis.methods import METHODS, PREFERENCES, Answer, Chosen
from argosy.model.post.synthesis.prompts import Unused

Record = dict[str, Any]
_SHOWN = 20  # prompts in the table of samples


@dataclass(frozen=True)
class Made:
    """The records, what the cleaning dropped of them, and the chosen answers by the number of their prompt."""

    records: list[Record]
    curation: Curation
    chosen: dict[int, list[Chosen]]


def make_records(
    config: SynthesisConfig, model: str, prompts: Sequence[Prompt], answers: Sequence[Sequence[Answer]],
    benchmark: Sequence[Mapping[str, Any]], writers: JsonlWriters, unused: Unused, missing: Mapping[int, str],
) -> Made:
    """Choose of the answers to each prompt, and clean what comes of it.

    `model`: name of what answered. `missing`: why a prompt has no answer, by its number. Raises StepError: no prompt
    has a record; InputError: the cleaning drops all."""
    choose = METHODS[config.method].choose
    chosen: dict[int, list[Chosen]] = {}
    for at, (prompt, given) in enumerate(zip(prompts, answers, strict=True)):
        found = choose(config, given) if given else missing[at]
        if isinstance(found, str):
            best = max((each.value for each in given), default=None)
            unused.add(prompt, found, **({} if best is None or not config.rewards else {"best_reward": best}))
        else:
            chosen[at] = found
    if not chosen:
        raise StepError(f"none of {len(prompts)} prompts has a record: {unused.counts()}; lower threshold or margin, "
                        "raise n or max_new_tokens, or let a better model answer")
    records = [record_of(config, model, prompts[at], each) for at, found in chosen.items() for each in found]
    kept, curation = curate(config.kind, records, config.curation, benchmark, writers, "curation", "self-made records")
    return Made(kept, curation, chosen)


def record_of(config: SynthesisConfig, model: str, prompt: Prompt, chosen: Chosen) -> Record:
    """Return a record of instructions, or of preferences, with model, method, n, the answer's seed and its reward."""
    turns = [dict(message) for message in prompt.messages]
    channel, answer = prompt.fields.get("channel"), chosen.answer
    about: Record = {name: prompt.fields[name] for name in ("lang", "kind", "fact") if prompt.fields.get(name)}
    about |= {"channel": f"{config.stage}/{channel}" if channel else config.stage, "model": model,
              "method": config.method, "n": config.copies, "seed": answer.seed}
    about |= {} if answer.reward is None else {"reward": answer.reward}
    if chosen.rejected is None:
        return {"messages": [*turns, *assistant(answer.text)], **about}
    return {"prompt": turns, "chosen": assistant(answer.text), "rejected": assistant(chosen.rejected.text), **about,
            "rejected_reward": chosen.rejected.value, "rejected_seed": chosen.rejected.seed, "margin": chosen.margin}


def write_records(config: SynthesisConfig, data: Path, made: Sequence[Record], out: Path, writers: JsonlWriters) -> int:
    """Write the records and `data_share` of the data step's own, and beside them its held-out file, which training is
    evaluated on. Returns the number of own records."""
    own = list(own_records(config, data, len(made)))
    writers.write_all(config.kind, [*made, *own])
    heldout = data / f"{config.kind}_heldout.jsonl"
    if heldout.is_file():
        shutil.copyfile(heldout, out / heldout.name)
    return len(own)


def own_records(config: SynthesisConfig, data: Path, made: int) -> Iterator[Record]:
    """Yield as many records of the data step, in an order by `seed`, as are `data_share` beside `made` others; each
    comes once before one comes twice."""
    count = round(made * config.data_share / (1 - config.data_share))
    if count:
        own = list(read_jsonl(data / f"{config.kind}.jsonl"))
        for at in range(count if own else 0):
            turn, place = divmod(at, len(own))
            yield own[permuted_index(place, len(own), derive_seed("own", config.seed, turn))]


def table_rows(prompts: Sequence[Prompt], answers: Sequence[Sequence[Answer]], made: Made) -> list[Record]:
    """Return rows of a table of samples: of the prompts from all over them, the best and the worst answer of each, and
    which was chosen."""
    rows: list[Record] = []
    step = max(1, len(prompts) // _SHOWN)
    for at in range(0, len(prompts), step):
        ordered = sorted(answers[at], key=lambda answer: -answer.value)
        learnt = {id(each.answer) for each in made.chosen.get(at, [])}
        for end, answer in zip(("best", "worst"), (ordered[:1] + ordered[1:][-1:]), strict=False):
            reasons = "; ".join(f"{name}: {text}" for name, text in answer.reasons.items() if text)
            rows.append({"step": 0, "end": end, "prompt": as_text(prompts[at].messages), "answer": answer.text,
                         "reward": answer.reward, "chosen": id(answer) in learnt, "ended": answer.ended,
                         **{f"reward/{name}": value for name, value in answer.parts.items()}, "reasons": reasons})
    return rows


def metrics_of(config: SynthesisConfig, answers: Sequence[Sequence[Answer]], made: Made) -> dict[str, float]:
    """Return shares and means over prompts, answers and records, as <stage>/NAME."""
    every = [answer for row in answers for answer in row]
    learnt = [each for found in made.chosen.values() for each in found]
    values = {"records": float(len(made.records)), "prompts_with_record": len(made.chosen) / len(answers),
              "ended": fmean(answer.ended for answer in every), "characters": fmean(len(each.text) for each in every)}
    if config.rewards:
        values["reward"] = fmean(answer.value for answer in every)
        values["reward/chosen"] = fmean(each.answer.value for each in learnt)
        values["reward/best"] = fmean(max(answer.value for answer in row) for row in answers if row)
        values |= {f"reward/{name}": fmean(answer.parts[name] for answer in every) for name in every[0].parts}
    if config.kind == PREFERENCES:
        values["margin"] = fmean(each.margin for each in learnt)
    return {f"{config.stage}/{name}": value for name, value in values.items()}
