"""Speed and memory of post-training, beside TRL's trainers.

python -m benchmarks.posttraining

Each work (an entry of WORKS) is done by ours and by TRL's trainer with the same model, examples, batch and precision, a
process each. They take turns within each round; a ratio is the median over rounds of what ours does in a second over
what theirs does in that round. TRL has the fastest of the layouts that its trainer offers. The last line is JSON:
`sft_ratio` (of tokens a second), and `memory_ratio`, TRL's peak memory over ours, the worst of all."""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from argosy.core.lazy import torch
from argosy.core.step.contract import StepContext
from argosy.core.step.process import make_deterministic
from argosy.corpus.data.schemas import Message
from argosy.model.train import decisions
from argosy.model.train.config.model import ModelConfig
from benchmarks.side_by_side import Side, environment, in_turns, median_ratio, shared, small_model
from benchmarks.training import THREADS, WARM, Counted, Laps, Last, counting, looped, of_trainers

Turn = Callable[..., dict[str, float]]  # of so many steps, of TRL's of a layout too: their `seconds`, what was `done`


@dataclass(frozen=True)
class PeerWork:
    """Something that ours and TRL's trainer both do."""

    unit: str  # of what is done in a second
    sides: Mapping[str, Callable[[], Turn]]  # by name, `ours` and `trl`, what makes a side's turn
    steps: int  # measured optimizer steps of a turn
    rounds: int
    layouts: Sequence[Mapping[str, Any]] = ({},)  # how TRL's trainer may divide its batch; the fastest counts


FILES = ("alpaca_en_demo", "alpaca_zh_demo", "identity")  # conversations of LLaMA-Factory
LENGTH, BATCH = 512, 4  # tokens of a row, rows of a step
CONVERSATIONS = 800
MODEL = ModelConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=8,
                    num_key_value_heads=8, max_position_embeddings=LENGTH)  # 6.8 million parameters
VOCABULARY = 8192
ASKED, ANSWER = 64, 64  # tokens of a prompt at most, and of an answer
GROUP, ANSWERS = 8, 32  # answers to a prompt, and of a step
RATE = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.posttraining", description=__doc__)
    parser.add_argument("--rounds", type=float, default=1.0, metavar="X", help="X times the usual rounds")
    parser.add_argument("--only", choices=tuple(WORKS), help="this work alone")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    for name in [args.only] if args.only else WORKS:
        figures |= {f"{name}_{key}": value for key, value in measure(name, args.rounds).items()}
    figures["memory_ratio"] = min(value for key, value in figures.items() if key.endswith("_memory_ratio"))
    print(json.dumps({"name": "posttraining", "threads": THREADS, **figures}))


def measure(name: str, share: float) -> dict[str, Any]:
    """Return the figures of a work, of `share` of its rounds."""
    work = WORKS[name]
    layout = _fastest(name)
    sides = {side: _start(name, side) for side in work.sides}
    works = {"ours": partial(sides["ours"].work, steps=work.steps),
             "trl": partial(sides["trl"].work, steps=work.steps, **layout)}
    for each in works.values():
        each()  # the first pass allocates
    turns = in_turns(works, work.rounds * share, f"{name}, {WARM + work.steps} steps")
    speeds = {side: [turn.result["done"] / turn.result["seconds"] for turn in each] for side, each in turns.items()}
    peaks = {side: each.close() for side, each in sides.items()}
    found = {"ratio": median_ratio(speeds["ours"], speeds["trl"]), "memory_ratio": peaks["trl"] / peaks["ours"],
             **{side: statistics.median(each) for side, each in speeds.items()},
             **{f"{side}_peak_mib": peak for side, peak in peaks.items()}}  # fmt: skip
    return {key: float(f"{value:.4g}") for key, value in found.items()} | {"unit": work.unit, "layout": layout}


def _start(name: str, side: str) -> Side:
    return Side(WORKS[name].sides[side], given=environment(side, THREADS))


def _fastest(name: str) -> Mapping[str, Any]:
    """Return the layout in which TRL's trainer is fastest, found by a process of its own, which has its own memory."""
    work = WORKS[name]
    if len(work.layouts) == 1:
        return work.layouts[0]
    side = _start(name, "trl")
    seconds = [[side.work(steps=work.steps, **layout)["seconds"] for _ in range(2)][1] for layout in work.layouts]
    side.close()
    print(f"{name}, TRL's seconds in the layouts {work.layouts}: {seconds}", flush=True)
    return work.layouts[seconds.index(min(seconds))]


def _conversations() -> list[list[Message]]:
    """Return real conversations of one question and one answer each, English and Chinese by turns."""
    folder = shared("llamafactory_demo")
    files = [json.loads((folder / f"data__{name}.json").read_text(encoding="utf-8")) for name in FILES]
    rows: list[Any] = [row for group in zip(*files[:2], strict=False) for row in group] + files[2]
    return [[{"role": "user", "content": "\n".join(filter(None, (row["instruction"], row.get("input", ""))))},
             {"role": "assistant", "content": row["output"]}] for row in rows]


def start() -> tuple[Any, Any, list[list[Message]]]:
    """Return the model with the weights that both sides begin with, its tokenizer, and the conversations that fit into
    a row, so that neither side cuts any."""
    from argosy.model.weights.chat import encode_answers

    torch.set_num_threads(THREADS)
    every = _conversations()
    with TemporaryDirectory() as folder:
        texts = [message["content"] for messages in every for message in messages]
        model, tokenizer = small_model(Path(folder), texts, VOCABULARY, MODEL)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fitting = [each for each in every if len(encode_answers(tokenizer, each)[0]) <= LENGTH]
    return model.to(device), tokenizer, fitting[:CONVERSATIONS]


def sft_ours() -> Turn:
    """Make the turn of our SFT as a step runs it, with its determinism, tracker and progress."""
    make_deterministic(0, THREADS)
    from argosy.model.post.config import SFTConfig
    from argosy.model.post.sft import InstructionLoss, Rows, make_rows, sample_parser
    from argosy.model.train.engines import make_engine
    from argosy.model.train.parallelism import Group

    model, tokenizer, conversations = start()
    config = SFTConfig(max_steps=1, batch_size=BATCH, micro_batch_size=BATCH, learning_rate=RATE, schedule="constant",
                       warmup_ratio=0.0, save_every=10**9, log_every=1, dtype=_dtype(model))
    parse = sample_parser(tokenizer, LENGTH)
    samples = [parse({"messages": messages}) for messages in conversations]
    rows, whole = make_rows(config, samples, LENGTH), Rows(samples, LENGTH, 0, prompts=True)
    phase = config.phase(1, BATCH, LENGTH)
    engine = make_engine(model, len(rows.names), phase, Group(device=model.device),
                         lambda model: InstructionLoss(model, len(rows.names), phase, 0.0))
    mean = sum(len(sample.ids) for sample in samples) / len(whole)

    def turn(steps: int) -> dict[str, float]:
        turned = config.phase(WARM + steps + 1, BATCH, LENGTH).model_copy(update={"log_every": steps})  # one log
        return {**looped(turned, steps, engine, rows), "done": mean * BATCH * steps}

    return turn


def sft_trl() -> Turn:
    """Make the turn of TRL's SFTTrainer, from its `train()` on; a layout says how many `rows` a forward has."""
    from datasets import Dataset
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    model, tokenizer, conversations = start()
    gpu, folder = model.device.type == "cuda", TemporaryDirectory()
    data = Dataset.from_list([{"messages": messages} for messages in conversations])

    callback = counting()

    def turn(steps: int, rows: int) -> dict[str, float]:
        callback.laps = Laps(steps)
        arguments = SFTConfig(
            **of_trainers(folder.name, steps, gpu=gpu), learning_rate=RATE, per_device_train_batch_size=rows,
            gradient_accumulation_steps=BATCH // rows, packing=True, max_length=LENGTH, assistant_only_loss=True,
            gradient_checkpointing=False, train_sampling_strategy="sequential")
        trainer = SFTTrainer(model=model, args=arguments, train_dataset=data, processing_class=tokenizer,
                             callbacks=[callback])
        packed: Any = trainer.train_dataset
        mean = sum(map(len, packed["input_ids"])) / len(packed)
        trainer.train()
        return {"seconds": callback.laps.seconds, "done": mean * BATCH * steps}

    return turn


def _questions(tokenizer: Any, conversations: Sequence[Sequence[Message]]) -> list[list[Message]]:
    from argosy.model.weights.chat import encode_prompt

    asked = [list(messages[:1]) for messages in conversations]
    return [messages for messages in asked if len(encode_prompt(tokenizer, messages)) <= ASKED]


def _reward(answers: Sequence[Sequence[int]]) -> list[float]:
    """Return a reward that costs nothing, of tokens."""
    return [sum(answer) % 101 / 101 for answer in answers]


def grpo_ours() -> Turn:
    """Make the turn of our GRPO as a step runs it; an answer has ANSWER tokens, whatever it says."""
    make_deterministic(0, THREADS)
    from argosy.model.post.rl import RLHFConfig
    from argosy.model.post.rl.learning import Learner
    from argosy.model.post.rl.networks import make_networks
    from argosy.model.post.rl.prompts import Stream
    from argosy.model.post.rl.rewards import Prompt, Rewarded
    from argosy.model.post.rl.rollout import Collector, TransformersSampler
    from argosy.model.post.stage import Source, Stage
    from argosy.model.train.parallelism import Group
    from argosy.model.weights.chat import encode_prompt

    model, tokenizer, conversations = start()
    config = RLHFConfig.model_validate({
        "method": "grpo", "group": {"size": GROUP}, "batch_size": ANSWERS, "micro_batch_size": ANSWERS, "kl_coef": 0,
        "max_new_tokens": ANSWER, "learning_rate": RATE, "schedule": "constant", "warmup_ratio": 0.0,
        "max_steps": 10**6, "save_every": 10**9, "log_every": 1, "dtype": _dtype(model), "rewards": {"ended": 1.0}})
    prompts = [Prompt(messages, encode_prompt(tokenizer, messages))
               for messages in _questions(tokenizer, conversations)]
    source = Source(Path(), tokenizer, 0, LENGTH, [], model.device)  # nothing ends an answer
    group, folder = Group(device=model.device), TemporaryDirectory()
    out = Path(folder.name)
    stage: Any = Stage(config, StepContext(out, Last(out / "tracking"), Counted(out / "progress.json", Laps(1))), group,
                       source)
    networks = make_networks(stage, model, config.max_steps, ASKED + ANSWER)
    sampler = TransformersSampler(networks.whole, networks.policy.module._dtype)

    def rewards(samples: Sequence[Any]) -> Rewarded:
        found = _reward([sample.answer_ids for sample in samples])
        return Rewarded(found, {"sum": found}, {})

    scored: Any = rewards
    learner = Learner(stage, networks, Collector(sampler, Stream(prompts, 0), scored, config, source, group), 10**6)
    done = [0]

    def turn(steps: int) -> dict[str, float]:
        assert folder  # which is there as long as this is
        laps = Laps(steps)
        for _ in range(WARM + steps):
            learner.update(decisions.Turn(done[0], done[0]))
            done[0] += 1
            laps.step()
        return {"seconds": laps.seconds, "done": ANSWERS * steps}

    return turn


def grpo_trl() -> Turn:
    """Make the turn of TRL's GRPOTrainer, which too samples with transformers."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    model, tokenizer, conversations = start()
    gpu, folder = model.device.type == "cuda", TemporaryDirectory()
    data = Dataset.from_dict({"prompt": _questions(tokenizer, conversations)})
    callback = counting()

    def score(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return _reward(completion_ids)

    scored: Any = score

    def turn(steps: int) -> dict[str, float]:
        callback.laps = Laps(steps)
        arguments = GRPOConfig(
            **of_trainers(folder.name, steps, gpu=gpu), learning_rate=RATE, per_device_train_batch_size=ANSWERS,
            num_generations=GROUP, max_completion_length=ANSWER, generation_kwargs={"min_new_tokens": ANSWER},
            beta=0.0, loss_type="grpo", gradient_checkpointing=False)
        trainer = GRPOTrainer(model=model, args=arguments, train_dataset=data, processing_class=tokenizer,
                              reward_funcs=[scored], callbacks=[callback])
        trainer.train()
        return {"seconds": callback.laps.seconds, "done": ANSWERS * steps}

    return turn


def _dtype(model: Any) -> Any:
    return "bfloat16" if model.device.type == "cuda" else "float32"


WORKS: dict[str, PeerWork] = {
    "sft": PeerWork("tokens/s", {"ours": sft_ours, "trl": sft_trl}, steps=6, rounds=8,
                    layouts=({"rows": 1}, {"rows": BATCH})),
    "grpo": PeerWork("samples/s", {"ours": grpo_ours, "trl": grpo_trl}, steps=3, rounds=6)}  # fmt: skip


if __name__ == "__main__":
    main()
