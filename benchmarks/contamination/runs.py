"""Models of `python -m benchmarks.contamination_size`, each with its groups: one of 25 million parameters trained from
random weights, and a published one (SmolLM2-135M-Instruct) as it is, with LoRA and trained in full."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from argosy.core.lazy import torch
from argosy.model.infer.encoder import Encoder, load_encoder
from argosy.model.infer.model import LanguageModel
from benchmarks.contamination import models
from benchmarks.contamination.groups import ITEMS, LEAKS, NEVER, PUBLISHED, TRANSLATED, Asked, Group, facts, groups
from evals.formats import read_items
from evals.items import Item

SHAPE = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 7, "num_attention_heads": 8}
VOCABULARY, ROW, RATE = 4096, 256, 1e-3
PROSE, OTHERS = 800, 200  # pieces and questions of others in a text
EXPOSURES = (1, 2, 4, 16)
SEEN = [(PUBLISHED, n) for n in EXPOSURES]
PLAIN = [*[(NEVER, 0)] * 4, *SEEN]
PLANS = {"mmlu": [*PLAIN, *((kind, n) for kind in LEAKS for n in (4, 16))], "openbookqa": PLAIN}
OF_FACTS = {"mmlu": [(NEVER, 0), (PUBLISHED, 4), (TRANSLATED, 4), (TRANSLATED, 16)], "openbookqa": []}
POOLS: dict[str, Callable[[], list[Item]]] = {"mmlu": models.mmlu, "openbookqa": models.openbookqa}


def pretrained(source: str) -> list[Asked]:
    """The model whose text has the items of one benchmark among prose in English and Chinese and questions of the other
    one."""
    [other] = POOLS.keys() - {source}
    known = [*groups(source, POOLS[source](), PLANS[source], source), *facts(OF_FACTS[source], source)]
    prose = Random(source).sample(models.prose("zh_rustbook"), PROSE)
    text = documents(known, POOLS[other](), OTHERS, prose, source)
    tokenizer = models.make_tokenizer(text, VOCABULARY)
    model = models.llama(tokenizer, sum(map(ord, source)), **SHAPE)
    models.fit(model, models.rows(text, tokenizer, ROW), RATE, bfloat16=True)
    return asked(LanguageModel(model, Encoder(tokenizer)), known)


def documents(
    known: Sequence[Group], others: Sequence[Item], number: int, prose: Sequence[str], seed: str
) -> list[str]:
    """Texts that a model is trained on, in a random order."""
    rng = Random(f"documents/{seed}")
    found = [*prose, *(text for group in known for text in group.texts())]
    found += [text for item in rng.sample(list(others), number) for text in models.asked("plain", item, 0)]
    rng.shuffle(found)
    return found


def asked(model: LanguageModel, known: Sequence[Group]) -> list[Asked]:
    """The evidence of each group."""
    found = []
    for group in known:
        found.append(Asked.of(group, models.evidence(model, group.items, 0)))
        print(f"asked: {group.name}", flush=True)
    return found


RATES = {"lora": 1e-3, "full": 1e-4}
RANK = 16
TUNED = [*[(NEVER, 0)] * 2, *SEEN]
FEW = 40  # pieces of prose, and as many questions of others, beside the items
SHORT, SIZE = 90, 40  # characters of an item, items of a group: processor time


def tuned(path: Path, how: str) -> list[Asked]:
    """The published model after one pass over MMLU's groups, prose and questions of others; `how`: by LoRA on all
    linear layers, merged, or in full. Evaluated in bfloat16, as it is published."""
    model, encoder = _load(path)
    known = groups("mmlu", models.movable(models.mmlu(), SHORT), TUNED, "real", SIZE)
    text = documents(known, models.openbookqa(), FEW, Random("real").sample(models.prose(), FEW), "real")
    torch.manual_seed(0)
    if how == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear"))
    models.fit(model.train(), models.rows(text, encoder.tokenizer, ROW), RATES[how], bfloat16=True)
    model = model.merge_and_unload() if how == "lora" else model
    return asked(LanguageModel(model.to(torch.bfloat16).eval(), encoder), known)


LONG = 160  # characters of an item of the published benchmarks
COMMONSENSE = {"openbookqa": 4, "social_i_qa": 3, "mathqa": 5, "piqa": 2}  # test sets, with their numbers of options
AT_A_PLACE = 12  # right options


def untouched(path: Path) -> list[Asked]:
    """The published model on benchmarks that nobody trained it on here."""
    model, encoder = _load(path)
    return asked(LanguageModel(model.to(torch.bfloat16).eval(), encoder), published())


def published() -> list[Group]:
    """A group of each benchmark; the truth of it is what the model's makers say of their data."""
    pools = {name: (read_items(models.DATA / f"commonsense_mc/dataset__{name}__test.json", format="instructions",
                               name=name, mix=False).items, n) for name, n in COMMONSENSE.items()}
    file = "gaokao_bench/Data__Objective_Questions__2010-2013_English_MCQs.json"
    pools["gaokao_english"] = (read_items(models.DATA / file, format="gaokao", name="gaokao").items, 4)
    found = groups("mmlu", models.mmlu(), [(NEVER, 0)], "real")
    for name, (items, options) in pools.items():
        pool = models.movable([item for item in items if isinstance(item, Item)], LONG, options)
        found += groups(name, pool, [(NEVER, 0)], "real", max(ITEMS, AT_A_PLACE * options), options)
    return found


def _load(path: Path) -> tuple[Any, Any]:
    from argosy.model.weights.load import load_model

    return load_model(path, dtype="float32"), load_encoder(path)
