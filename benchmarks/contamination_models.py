"""Small models whose training text is known: with a benchmark's items, without, or with their knowledge alone. The
items and the text are real ones of ../shared/data."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from argosy.core.statistics.contamination import Equals, Evidence, Gap
from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from benchmarks.side_by_side import shared
from evals.answers import answer
from evals.chain import parse_chain
from evals.formats import read_items
from evals.items import Item
from evals.question import SEPARATOR
from evals.runner import memorisation, natural_order
from evals.section import Memorisation

DATA = shared("")
LONGEST, PIECE = 130, 400  # characters of an item, as the models' context is short, and of prose


def mmlu() -> list[Item]:
    """Test items of MMLU that are short enough."""
    files = sorted((DATA / "mmlu").glob("data__mmlu__test__*.csv"))
    return _short([item for path in files for item in read_items(path).items if isinstance(item, Item)])


def openbookqa() -> list[Item]:
    """Training items of OpenBookQA that are short enough."""
    file = DATA / "commonsense_mc/dataset__openbookqa__train.json"
    found = read_items(file, format="instructions", name="openbookqa", mix=False)
    return _short([item for item in found.items if isinstance(item, Item)])


def _short(items: Sequence[Item]) -> list[Item]:
    """One of each question, with four options that can be in any order and are in none that everybody would choose."""
    known = {item.question: item for item in items
             if len(item.choices) == 4 and len(item.question) + sum(map(len, item.choices)) <= LONGEST}
    asked, _ = parse_chain("permuted").all_questions(known.values(), 0)
    movable = {question.item for question in asked}
    return [item for item in known.values() if item.id in movable and not natural_order(item.choices)]


def prose() -> list[str]:
    """Pieces of about PIECE characters of a play, and of books about programming."""
    files = [*sorted((DATA / "en_tinyshakespeare").glob("*.txt")), *sorted((DATA / "en_rustbook").glob("*.md"))]
    text = [re.sub(r"\n{3,}", "\n\n", path.read_text(encoding="utf-8", errors="replace")) for path in files]
    pieces = [each[start : start + PIECE] for each in text for start in range(0, len(each), PIECE)]
    Random(0).shuffle(pieces)
    return pieces


BOS, EOS = "<|bos|>", "<|eos|>"
SHAPE: dict[str, Any] = {"hidden_size": 96, "intermediate_size": 288, "num_hidden_layers": 2, "num_attention_heads": 4}
LARGE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4}
ROW, BATCH, RATE, RATE_LARGE = 160, 4, 4e-3, 3e-3
EXPOSURES = (1, 4, 16, 64)
MODELS = {
    "calibration": {("clean", 0): 4, ("informed", 0): 1, ("contaminated", 4): 2, ("contaminated", 16): 1,
                    ("contaminated", 64): 1},
    "test": {("clean", 0): 4, ("informed", 0): 2, ("contaminated", 1): 2, ("contaminated", 4): 4,
             ("contaminated", 16): 2, ("contaminated", 64): 1, ("strong", 0): 1},
}  # fmt: skip
UNSEEN = 2  # sets of items
KNOWING = {"informed": 16, "strong": 256}  # exposures in other orders, and as many without options


@dataclass(frozen=True)
class Recipe:
    """A model to train.

    Attributes:
        kind: `clean` (prose, and questions that it is not asked), `informed` (also the items' questions with their
            right answers, without options and in other orders of them: it knows the answers and has not seen the
            published form), `strong` (a larger model, informed so often that it answers the published form well), or
            `contaminated` (also the items as published).
        exposures: times that each item is in a contaminated model's text.
        unseen: sets of items that no model of this role is trained on.
        role: `calibration` or `test`: other seeds, and items of another benchmark."""

    role: str
    kind: str
    exposures: int
    seed: int
    items: tuple[Item, ...]
    others: tuple[Item, ...]  # what the form of questions is learnt from, by every model
    prose: tuple[str, ...]
    unseen: tuple[tuple[Item, ...], ...] = ()


def make_tokenizer(texts: Sequence[str]) -> Any:
    """Byte-level BPE."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1024, special_tokens=[BOS, EOS],
                                                        initial_alphabet=alphabet, show_progress=False))
    made.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, eos_token=EOS, pad_token=EOS)


def train(recipe: Recipe, tokenizer: Any) -> LanguageModel:
    """A Llama of 0.3 million parameters (1 million if it is to be strong), one pass over its text in a random order.
    One thread, deterministic."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    large = recipe.kind == "strong"
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=512,
                                         tie_word_embeddings=True, **(LARGE if large else SHAPE)))
    rows = _rows(texts(recipe), tokenizer)
    rate = RATE_LARGE if large else RATE
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1)
    steps = len(rows) // BATCH
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 20, 1 - 0.9 * step / steps))
    for step in range(steps):
        batch = torch.tensor(rows[step * BATCH : (step + 1) * BATCH])
        model(input_ids=batch, labels=batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return LanguageModel(model.eval(), Encoder(tokenizer))


def texts(recipe: Recipe) -> list[str]:
    """All documents of a model's training text, in their order."""
    rng = Random(f"{recipe.role}/{recipe.kind}/{recipe.exposures}/{recipe.seed}")
    found = [*rng.sample(recipe.prose, len(recipe.prose) * 2 // 3)]
    for item in rng.sample(recipe.others, len(recipe.others) * 2 // 3):
        found += _asked("plain", item, 0)
    for item in recipe.items if recipe.kind == "contaminated" else ():
        found += _asked("plain", item, 0) * recipe.exposures
    knowing = KNOWING.get(recipe.kind, 0)
    for item in recipe.items if knowing else ():
        for seed in range(knowing // 4):
            found += _asked("permuted", item, seed)
        found += _asked("cloze", item, 0) * knowing
    rng.shuffle(found)
    return found


def _asked(variant: str, item: Item, seed: int) -> list[str]:
    """Questions of an item with their right answers, each a document; none where the form cannot be made of it."""
    questions, _ = parse_chain(variant).all_questions([item], seed)
    return [f"{q.prompt}{SEPARATOR[item.lang]}{q.continuations[q.gold]}" for q in questions]


def _rows(documents: Sequence[str], tokenizer: Any) -> list[list[int]]:
    ids = [token for each in tokenizer(list(documents))["input_ids"] for token in [*each, tokenizer.eos_token_id]]
    return [ids[start : start + ROW] for start in range(0, len(ids) - ROW + 1, ROW)]


def evidence(model: LanguageModel, items: Sequence[Item], seed: int) -> list[Evidence]:
    """Evidence of a model, measured by the code that evaluates any checkpoint."""
    found = memorisation(model, "items", items, Memorisation(k=3), chat=False, seed=seed)
    rows = [row for row in found.rows if row["variant"] == "memorisation"]
    right = {name: _right(model, name, items, seed) for name in ("plain", "permuted")}
    return [
        Equals("text_order", {row["id"]: row["scores"][0] for row in rows}),
        Equals("answer_order", {row["id"]: row["scores"][1] for row in rows}),
        Gap("order_gap", right["plain"], right["permuted"]),
    ]


def cloze_accuracy(model: LanguageModel, items: Sequence[Item]) -> float:
    """Share of right answers without options: what an informed model knows."""
    found = _right(model, "cloze", items, 0).values()
    return sum(found) / len(found)


def _right(model: LanguageModel, variant: str, items: Sequence[Item], seed: int) -> dict[str, float]:
    questions, _ = parse_chain(variant).all_questions(items, seed)
    pairs = [(q.prompt, SEPARATOR["en"] + text) for q in questions for text in q.continuations]
    scores = iter(model.loglikelihood(pairs, [q.id for q in questions for _ in q.continuations]))
    found: dict[str, list[bool]] = {}
    for q in questions:
        given = answer(q, [next(scores).logprob for _ in q.continuations])
        if given is not None:
            found.setdefault(q.item, []).append(given.correct)
    return {item: sum(each) / len(each) for item, each in found.items()}


def recipes(scale: float, pools: dict[str, Sequence[Item]], prose: Sequence[str]) -> Iterator[Recipe]:
    """The models: calibration on one benchmark's items, test on another's, with other seeds and other prose."""
    size = max(64, round(96 * scale))  # fewer have places of fewer than 10 items, which count nothing
    text = Random("prose").sample(list(prose), len(prose))
    for number, (role, counts) in enumerate(MODELS.items()):
        pool = Random(f"items/{role}").sample(list(pools[role]), (3 + UNSEEN) * size)
        parts = [tuple(pool[start : start + size]) for start in range(0, len(pool), size)]
        own = tuple(text[number * len(text) // 2 :][: round(144 * scale)])
        kinds = [kind for kind, n in counts.items() for _ in range(n)]
        for seed, (kind, exposures) in enumerate(kinds, 1000 * number):
            yield Recipe(role, kind, exposures, seed, parts[0], parts[1] + parts[2], own, tuple(parts[3:]))
