"""Verdicts of the contamination score on models of 25 and of 135 million parameters, by exposures and kind of leak.

python -m benchmarks.contamination_size [--part pretrained untouched lora full] [--model DIR]

`pretrained`: a model of 25 million parameters, trained from random weights on text in which groups of MMLU's items
stand 0, 1, 2, 4 and 16 times as published, reworded, reordered or translated. The others are SmolLM2-135M-Instruct (DIR
has it as transformers saves it): `untouched` on six benchmarks, and after training on groups with LoRA or in full. The
shipped calibration judges each group as a benchmark of its own. The last line is JSON.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from argosy.core.lazy import torch
from argosy.core.statistics.contamination import default_calibration, score
from argosy.evidence.results.contamination import Seen
from argosy.model.infer.encoder import Encoder, load_encoder
from argosy.model.infer.model import LanguageModel
from benchmarks.contamination import models
from benchmarks.contamination.groups import ITEMS, LEAKS, NEVER, PUBLISHED, TRANSLATED, Group, facts, groups
from evals.formats import read_items
from evals.items import Item

SHAPE = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 7, "num_attention_heads": 8}
VOCABULARY, ROW, RATE = 4096, 256, 1e-3
PROSE, OTHERS = 800, 200  # pieces and questions of others in a text
SEEN = [(PUBLISHED, n) for n in (1, 2, 4, 16)]
PLAN = [*[(NEVER, 0)] * 4, *SEEN, *((kind, n) for kind in LEAKS for n in (4, 16))]
OF_FACTS = [(NEVER, 0), (PUBLISHED, 4), (TRANSLATED, 4), (TRANSLATED, 16)]
TUNED = [*[(NEVER, 0)] * 2, *SEEN]
RATES, RANK = {"lora": 1e-3, "full": 1e-4}, 16
FEW = 40  # pieces of prose, and as many questions of others, beside the items of tuning
SHORT, SIZE = 90, 40  # characters of an item, items of a group: processor time
LONG, AT_A_PLACE = 160, 12  # characters of an item of a published benchmark, right options at a place
COMMONSENSE = {"openbookqa": 4, "social_i_qa": 3, "mathqa": 5, "piqa": 2}  # test sets, with their numbers of options
PARTS = ("pretrained", "untouched", *RATES)


def main() -> None:
    """Train, ask, judge, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.contamination_size", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--model", type=Path, default=os.environ.get("ARGOSY_REAL_MODEL"), help="SmolLM2-135M-Instruct")
    args = parser.parse_args()
    if not models.DATA.is_dir():
        parser.error(f"{models.DATA} is absent: the benchmark trains on its text and items")
    if args.model is None and set(args.part) - {"pretrained"}:
        parser.error("--model is absent; allowed: a directory with SmolLM2-135M-Instruct (or --part pretrained)")
    rows = {}
    for part in args.part:
        model, known = pretrained() if part == "pretrained" else published(args.model, part)
        print(f"{part:<30} {'score':>6} {'z':>6} {'p':>7} verdict")
        rows[part] = [judged(model, group) for group in known]
    print(json.dumps({"name": "contamination_size", "unit": "score", **rows}))


def judged(model: LanguageModel, group: Group) -> dict[str, Any]:
    """Ask a model a group of items; return and print the verdict."""
    places = {item.id: item.answer for item in group.items}
    found = score(models.evidence(model, group.items, 0), places, calibration=default_calibration())
    verdict = Seen(group.source, found).verdict
    print(f"{group.name:<30} {found.score:>6.2f} {found.z:>6.2f} {found.p_value:>7.4f} {verdict}", flush=True)
    return {"group": group.name, "score": found.score, "z": found.z, "p_value": found.p_value, "verdict": verdict}


def pretrained() -> tuple[LanguageModel, list[Group]]:
    """Train a model on groups of items among prose in English and Chinese and questions of another benchmark."""
    known = [*groups("mmlu", models.mmlu(), PLAN, "mmlu"), *facts(OF_FACTS, "mmlu")]
    text = documents(known, OTHERS, Random("mmlu").sample(models.prose("zh_rustbook"), PROSE), "mmlu")
    tokenizer = models.make_tokenizer(text, VOCABULARY)
    model = models.llama(tokenizer, sum(map(ord, "mmlu")), **SHAPE)
    models.fit(model, models.rows(text, tokenizer, ROW), RATE, bfloat16=True)
    return LanguageModel(model, Encoder(tokenizer)), known


def documents(known: Sequence[Group], number: int, prose: Sequence[str], seed: str) -> list[str]:
    """Texts that a model is trained on, in a random order."""
    rng = Random(f"documents/{seed}")
    found = [*prose, *(text for group in known for text in group.texts())]
    found += [text for item in rng.sample(models.openbookqa(), number) for text in models.asked("plain", item, 0)]
    rng.shuffle(found)
    return found


def published(path: Path, part: str) -> tuple[LanguageModel, list[Group]]:
    """The published model, evaluated in bfloat16, as it is published; with the groups that it is asked.

    part: `untouched`, or how one pass over MMLU's groups, prose and questions of others trains it: `lora` on all linear
        layers, merged, or in `full`."""
    from argosy.model.weights.load import load_model

    model, encoder = load_model(path, dtype="float32"), load_encoder(path)
    known = benchmarks() if part == "untouched" else groups(
        "mmlu", models.movable(models.mmlu(), SHORT), TUNED, "real", SIZE)
    if part in RATES:
        text = documents(known, FEW, Random("real").sample(models.prose(), FEW), "real")
        model = _tuned(model, models.rows(text, encoder.tokenizer, ROW), part)
    return LanguageModel(model.to(torch.bfloat16).eval(), encoder), known


def _tuned(model: Any, rows: Sequence[Sequence[int]], how: str) -> Any:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    if how == "lora":
        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear"))
    models.fit(model.train(), rows, RATES[how], bfloat16=True)
    return model.merge_and_unload() if how == "lora" else model


def benchmarks() -> list[Group]:
    """A group of each benchmark; the truth of it is what the model's makers say of their data."""
    found = groups("mmlu", models.mmlu(), [(NEVER, 0)], "real")
    files = {name: (f"commonsense_mc/dataset__{name}__test.json", "instructions", n) for name, n in COMMONSENSE.items()}
    files["gaokao"] = ("gaokao_bench/Data__Objective_Questions__2010-2013_English_MCQs.json", "gaokao", 4)
    for name, (file, form, options) in files.items():
        items = read_items(models.DATA / file, format=form, name=name, mix=False).items
        pool = models.movable([item for item in items if isinstance(item, Item)], LONG, options)
        found += groups(name, pool, [(NEVER, 0)], "real", max(ITEMS, AT_A_PLACE * options), options)
    return found


if __name__ == "__main__":
    main()
