"""The works of the benchmark of post-training, each by our loop and by TRL's trainer.

A work is an entry of WORKS; each of its sides makes a function of a number of steps (TRL's of a layout too), which
returns the `seconds` of them and what was `done`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from argosy.core.step.contract import StepContext
from argosy.core.step.process import make_deterministic
from argosy.corpus.data.schemas import Message
from argosy.corpus.tokens.tokenizer import save_tokenizer, train_tokenizer
from argosy.model.train.config.model import ModelConfig
from benchmarks.side_by_side import shared
from benchmarks.training.sides import THREADS, WARM, Counted, Laps, Last, counting

Turn = Callable[..., dict[str, float]]


@dataclass(frozen=True)
class PeerWork:
    """Something that ours and TRL's trainer both do.

    Attributes:
        unit: of what is done in a second.
        sides: by name, `ours` and `trl`, what makes a side's turn.
        steps: measured optimizer steps of a turn.
        rounds: turns of each.
        layouts: what TRL's trainer may be told about how it divides its batch; the fastest counts."""

    unit: str
    sides: Mapping[str, Callable[[], Turn]]
    steps: int
    rounds: int
    layouts: Sequence[Mapping[str, Any]] = ({},)


FILES = ("alpaca_en_demo", "alpaca_zh_demo", "identity")  # conversations of LLaMA-Factory
LENGTH, BATCH = 512, 4  # tokens of a row, rows of a step
CONVERSATIONS = 800
MODEL = ModelConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=8,
                    num_key_value_heads=8, max_position_embeddings=LENGTH)  # 6.8 million parameters
VOCABULARY = 8192
ASKED, ANSWER = 64, 64  # tokens of a prompt at most, and of an answer
GROUP, ANSWERS = 8, 32  # answers to a prompt, and of a step
RATE = 1e-4


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
    import torch

    from argosy.model.train.phase import build_model
    from argosy.model.weights.chat import encode_answers
    from argosy.model.weights.pretrained import load_tokenizer

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    every = _conversations()
    with TemporaryDirectory() as folder:
        texts = (message["content"] for messages in every for message in messages)
        save_tokenizer(train_tokenizer(texts, VOCABULARY, split_han=False), Path(folder))
        tokenizer = load_tokenizer(Path(folder))
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fitting = [each for each in every if len(encode_answers(tokenizer, each)[0]) <= LENGTH]
    return build_model(MODEL, VOCABULARY, special).to(device), tokenizer, fitting[:CONVERSATIONS]


def sft_ours() -> Turn:
    """Make the turn of our SFT as a step runs it, with its determinism, tracker and progress."""
    make_deterministic(0, THREADS)
    from argosy.model.post.config import SFTConfig
    from argosy.model.post.rows import Rows
    from argosy.model.post.sft import InstructionLoss, make_rows, sample_parser
    from argosy.model.train.engines import make_engine
    from argosy.model.train.loop import Loop
    from argosy.model.train.parallel import Group
    from argosy.model.train.updates import Sampled

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
        with TemporaryDirectory() as folder:
            tracker, laps = Last(Path(folder, "tracking")), Laps(steps)
            context = StepContext(Path(folder), tracker, Counted(Path(folder, "progress.json"), laps))
            turned = config.phase(WARM + steps + 1, BATCH, LENGTH).model_copy(update={"log_every": steps})  # one log
            exporter: Any = SimpleNamespace(tokens_before=0)
            Loop(turned, context, engine, Sampled(turned, context, engine, rows, None, exporter)).run()
            tracker.close()
        return {"seconds": laps.seconds, "done": mean * BATCH * steps, "loss": tracker.last["train/loss"]}

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
            output_dir=folder.name, max_steps=WARM + steps, per_device_train_batch_size=rows,
            gradient_accumulation_steps=BATCH // rows, packing=True, max_length=LENGTH, assistant_only_loss=True,
            learning_rate=RATE, lr_scheduler_type="constant", optim="adamw_torch_fused", logging_steps=steps, bf16=gpu,
            use_cpu=not gpu, gradient_checkpointing=False, save_strategy="no", report_to="none", disable_tqdm=True,
            dataloader_pin_memory=gpu, train_sampling_strategy="sequential",
        )  # fmt: skip
        trainer = SFTTrainer(model=model, args=arguments, train_dataset=data, processing_class=tokenizer,
                             callbacks=[callback])
        packed: Any = trainer.train_dataset
        mean = sum(map(len, packed["input_ids"])) / len(packed)
        trainer.train()
        return {"seconds": callback.laps.seconds, "done": mean * BATCH * steps, "loss": callback.loss}

    return turn


def _questions(tokenizer: Any, conversations: Sequence[Sequence[Message]]) -> list[list[Message]]:
    """Return the questions of at most ASKED tokens."""
    from argosy.model.weights.chat import encode_prompt

    asked = [list(messages[:1]) for messages in conversations]
    return [messages for messages in asked if len(encode_prompt(tokenizer, messages)) <= ASKED]


def _reward(answers: Sequence[Sequence[int]]) -> list[float]:
    """Return a reward that costs nothing, of tokens."""
    return [sum(answer) % 101 / 101 for answer in answers]


def grpo_ours() -> Turn:
    """Make the turn of our GRPO as a step runs it; an answer has ANSWER tokens, whatever it says."""
    make_deterministic(0, THREADS)
    from argosy.model.infer.source import Source
    from argosy.model.post.rl.config import RLHFConfig
    from argosy.model.post.rl.learning import Learner
    from argosy.model.post.rl.networks import make_networks
    from argosy.model.post.rl.rewards import Prompt, Rewarded
    from argosy.model.post.rl.rollout import Collector, Stream, TransformersSampler
    from argosy.model.post.stage import Stage
    from argosy.model.train.parallel import Group
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
        laps, values = Laps(steps), {}
        for _ in range(WARM + steps):
            values = learner.update(done[0])
            done[0] += 1
            laps.step()
        return {"seconds": laps.seconds, "done": ANSWERS * steps, "loss": values["train/loss"],
                "length": values["rlhf/length"]}

    return turn


def grpo_trl() -> Turn:
    """Make the turn of TRL's GRPOTrainer, which too samples with transformers."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    model, tokenizer, conversations = start()
    gpu, folder = model.device.type == "cuda", TemporaryDirectory()
    data = Dataset.from_dict({"prompt": _questions(tokenizer, conversations)})
    callback, lengths = counting(), [0.0]

    def score(completion_ids: list[list[int]], **_: Any) -> list[float]:
        lengths[0] = sum(map(len, completion_ids)) / len(completion_ids)
        return _reward(completion_ids)

    scored: Any = score

    def turn(steps: int) -> dict[str, float]:
        callback.laps = Laps(steps)
        arguments = GRPOConfig(
            output_dir=folder.name, max_steps=WARM + steps, per_device_train_batch_size=ANSWERS, num_generations=GROUP,
            max_completion_length=ANSWER, generation_kwargs={"min_new_tokens": ANSWER}, beta=0.0, loss_type="grpo",
            learning_rate=RATE, lr_scheduler_type="constant", optim="adamw_torch_fused", logging_steps=steps, bf16=gpu,
            use_cpu=not gpu, gradient_checkpointing=False, save_strategy="no", report_to="none", disable_tqdm=True,
            dataloader_pin_memory=gpu,
        )  # fmt: skip
        trainer = GRPOTrainer(model=model, args=arguments, train_dataset=data, processing_class=tokenizer,
                              reward_funcs=[scored], callbacks=[callback])
        trainer.train()
        return {"seconds": callback.laps.seconds, "done": ANSWERS * steps, "loss": callback.loss, "length": lengths[0]}

    return turn


def _dtype(model: Any) -> Any:
    return "bfloat16" if model.device.type == "cuda" else "float32"


WORKS: dict[str, PeerWork] = {
    "sft": PeerWork("tokens/s", {"ours": sft_ours, "trl": sft_trl}, steps=6, rounds=8,
                    layouts=({"rows": 1}, {"rows": BATCH})),
    "grpo": PeerWork("samples/s", {"ours": grpo_ours, "trl": grpo_trl}, steps=3, rounds=6),
}  # fmt: skip
