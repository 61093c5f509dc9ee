"""Small models whose training text is known: with a benchmark's items, without, or with their knowledge alone. The
items and the text are real ones of ../shared/data."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from typing import Any, TypeVar

from argosy.core.lazy import torch
from argosy.core.statistics.contamination import Equals, Evidence, Gap
from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from benchmarks.side_by_side import shared
from evals.answers import answer
from evals.chain import parse_chain
from evals.formats import read_items
from evals.items import Item
from evals.memorisation import memorisation, natural_order
from evals.question import SEPARATOR
from evals.section import Memorisation

DATA = shared("")
T = TypeVar("T")
LONGEST, PIECE = 130, 400  # characters of an item, as the models' context is short, and of prose


def mmlu() -> list[Item]:
    """Test items of MMLU that are short enough."""
    files = sorted((DATA / "mmlu").glob("data__mmlu__test__*.csv"))
    return movable([item for path in files for item in read_items(path).items if isinstance(item, Item)])


def openbookqa() -> list[Item]:
    """Training items of OpenBookQA that are short enough."""
    file = DATA / "commonsense_mc/dataset__openbookqa__train.json"
    found = read_items(file, format="instructions", name="openbookqa", mix=False)
    return movable([item for item in found.items if isinstance(item, Item)])


def movable(items: Sequence[Item], longest: int = LONGEST, options: int | None = 4) -> list[Item]:
    """One of each question, short enough, with as many options (None: any number) that can be in any order and are in
    none that everybody would choose."""
    known = {item.question: item for item in items
             if options in (None, len(item.choices)) and len(item.question) + sum(map(len, item.choices)) <= longest}
    asked, _ = parse_chain("permuted").all_questions(known.values(), 0)
    can = {question.item for question in asked}
    return [item for item in known.values() if item.id in can and not natural_order(item.choices)]


def prose(*folders: str) -> list[str]:
    """Pieces of about PIECE characters of a play, of books about programming, and of other folders."""
    files = [*sorted((DATA / "en_tinyshakespeare").glob("*.txt")),
             *(path for folder in ("en_rustbook", *folders) for path in sorted((DATA / folder).glob("*.md")))]
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


def in_pairs(work: Callable[[Recipe], T], todo: Sequence[Recipe]) -> Iterator[T]:
    """Yield the results of the work on each recipe, in their order, two at a time."""
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with get_context("fork").Pool(2) as pool:
        for number, found in enumerate(pool.imap(work, todo), 1):
            recipe = todo[number - 1]
            print(f"{number} of {len(todo)} models: {recipe.role} {recipe.kind} {recipe.exposures}", flush=True)
            yield found


def tokenizer_for(pools: Iterable[Sequence[Item]], prose: Sequence[str]) -> Any:
    """Make the tokenizer of models that read prose and items of these benchmarks."""
    asked = [f"{item.question} {' '.join(item.choices)}" for pool in pools for item in pool[:500]]
    return make_tokenizer([*Random(0).sample(prose, 1000), *asked])


def make_tokenizer(texts: Sequence[str], vocabulary: int = 1024) -> Any:
    """Byte-level BPE."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[BOS, EOS],
                                                        initial_alphabet=alphabet, show_progress=False))
    made.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, eos_token=EOS, pad_token=EOS)


def train(recipe: Recipe, tokenizer: Any) -> LanguageModel:
    """A Llama of 0.3 million parameters (1 million if it is to be strong), one pass over its text in a random order."""
    large = recipe.kind == "strong"
    model = llama(tokenizer, recipe.seed, **(LARGE if large else SHAPE))
    fit(model, rows(texts(recipe), tokenizer, ROW), RATE_LARGE if large else RATE)
    return LanguageModel(model, Encoder(tokenizer))


def llama(tokenizer: Any, seed: int, **shape: Any) -> Any:
    """A Llama with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=512,
                                        tie_word_embeddings=True, **shape))


def fit(model: Any, rows: Sequence[Sequence[int]], rate: float, *, bfloat16: bool = False) -> None:
    """One pass over the rows, in their order. One thread, deterministic; bfloat16: of products, not of weights."""
    torch.set_num_threads(1)
    chosen = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=rate, betas=(0.9, 0.95), weight_decay=0.1)
    steps = len(rows) // BATCH
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 20, 1 - 0.9 * step / steps))
    for step in range(steps):
        batch = torch.tensor(rows[step * BATCH : (step + 1) * BATCH])
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(chosen, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if bfloat16 and step % 20 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.2f}", flush=True)
    model.eval()


def texts(recipe: Recipe) -> list[str]:
    """All documents of a model's training text, in their order."""
    rng = Random(f"{recipe.role}/{recipe.kind}/{recipe.exposures}/{recipe.seed}")
    found = [*rng.sample(recipe.prose, len(recipe.prose) * 2 // 3)]
    for item in rng.sample(recipe.others, len(recipe.others) * 2 // 3):
        found += asked("plain", item, 0)
    for item in recipe.items if recipe.kind == "contaminated" else ():
        found += asked("plain", item, 0) * recipe.exposures
    knowing = KNOWING.get(recipe.kind, 0)
    for item in recipe.items if knowing else ():
        for seed in range(knowing // 4):
            found += asked("permuted", item, seed)
        found += asked("cloze", item, 0) * knowing
    rng.shuffle(found)
    return found


def asked(variant: str, item: Item, seed: int, spec: object = None) -> list[str]:
    """Questions of an item with their right answers, each a document; none where the form cannot be made of it.
    spec: as suites write a variant that is more than its name."""
    questions, _ = parse_chain(variant, spec).all_questions([item], seed)
    return [f"{q.prompt}{SEPARATOR[item.lang]}{q.continuations[q.gold]}" for q in questions]


def rows(documents: Sequence[str], tokenizer: Any, length: int) -> list[list[int]]:
    """The documents' tokens one after the other, cut into rows of a length."""
    ids = [token for each in tokenizer(list(documents))["input_ids"] for token in [*each, tokenizer.eos_token_id]]
    return [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]


def evidence(model: LanguageModel, items: Sequence[Item], seed: int) -> list[Evidence]:
    """Evidence of a model, measured by the code that evaluates any checkpoint."""
    found = memorisation(model, "items", items, Memorisation(k=3), chat=False, seed=seed)
    traces = [row for row in found.rows if row["variant"] == "memorisation"]
    right = {name: _right(model, name, items, seed) for name in ("plain", "permuted")}
    return [
        Equals("text_order", {row["id"]: row["scores"][0] for row in traces}),
        Equals("answer_order", {row["id"]: row["scores"][1] for row in traces}),
        Gap("order_gap", right["plain"], right["permuted"]),
    ]


def accuracy(model: LanguageModel, items: Sequence[Item], form: str = "cloze") -> float:
    """Share of right answers, by default without options: what an informed model knows."""
    found = _right(model, form, items, 0).values()
    return sum(found) / len(found)


def _right(model: LanguageModel, variant: str, items: Sequence[Item], seed: int) -> dict[str, float]:
    questions, _ = parse_chain(variant).all_questions(items, seed)
    pairs = [(q.prompt, SEPARATOR[q.lang] + text) for q in questions for text in q.continuations]
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
