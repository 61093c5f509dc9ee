"""Supervised fine-tuning on conversations (the loss is on the assistant's tokens) and its held-out evaluation.

Conversations share rows as documents share windows (argosy.corpus.tokens.windows): best fit, longest first, in another
order each epoch. A row holds whole conversations; a text of pretraining that is longer than a row has several. Batches
of rows are a pure function of (data, seed, position)."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from argosy.core.store.step_files import given_directory
from argosy.corpus.data.schemas import ParseError, check_text, turns_of
from argosy.corpus.data.sources import RESERVED_CHANNEL, channel_of
from argosy.corpus.data.split import derive_seed, permuted_index
from argosy.corpus.data.turns import learnt_turns
from argosy.corpus.tokens.amounts import Amount
from argosy.corpus.tokens.mixture import Batch
from argosy.corpus.tokens.reader import TokenizedChannel, check_tokenizer, read_channels
from argosy.corpus.tokens.windows import IGNORED, ChannelWindows, Window
from argosy.model.infer.decode import Decoding, TransformersDecoder
from argosy.model.post.config import SFTConfig
from argosy.model.post.stage import Evaluate, Stage, Trained
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.fitting import explained
from argosy.model.train.engines.parts import WholeModel
from argosy.model.train.heldout import Row, nats_of
from argosy.model.train.layers.distil import Teacher
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.layers.packed import places
from argosy.model.train.loop import Loop
from argosy.model.train.phase import loss_weights
from argosy.model.train.updates import Sampled
from argosy.model.weights.chat import check_length, encode_answers, encode_prompt, learnt_marks

PROMPTS = "_prompts"  # ends the name of the channel that has a channel's prompts


@dataclass(frozen=True)
class Sample:
    """A conversation, or a text of pretraining.

    Attributes:
        ids: (tokens,), int32.
        answers: (tokens,), bool: whether each is of the assistant's words or ends a turn of it; of a text, all are.
        channel: the group that its losses are counted in.
        prompt: the conversation's ids up to the answer of its last turn, where that is to be generated.
        reply: that turn's text; None: there is nothing to generate."""

    ids: npt.NDArray[np.int32]
    answers: npt.NDArray[np.bool_]
    channel: str
    prompt: tuple[int, ...] = ()
    reply: str | None = None


class Rows:
    """Rows of samples.

    Args:
        length: tokens of a row.
        packing: several samples share a row; else each has its own, and a batch is as long as its longest.
        prompts: prompts' tokens are targets too, counted in channels of their own (`weights`).

    Attributes:
        channels: of the samples.
        names: the channels that losses are summed by: these; with `prompts`, as many of prompts after them.
        empty: positions of the run without a row: the last batch need not be full."""

    def __init__(self, samples: Sequence[Sample], length: int, seed: int, *, packing: bool = True,
                 prompts: bool = False) -> None:
        order = np.random.default_rng(derive_seed(seed, "rows")).permutation(len(samples))
        samples = [samples[index] for index in order]  # neighbours in a file may be alike
        self.channels = tuple(sorted({sample.channel for sample in samples}))
        self.names = (*self.channels, *(f"{name}{PROMPTS}" for name in self.channels if prompts))
        self.empty = range(0)
        self._prompts, self._packing = prompts, packing
        self._ids = np.concatenate([sample.ids for sample in samples])
        self._answers = np.concatenate([sample.answers for sample in samples])
        self._offsets = np.cumsum([0, *(len(sample.ids) for sample in samples)])
        self._channel = np.array([self.channels.index(sample.channel) for sample in samples])
        places = TokenizedChannel("rows", np.arange(len(self._ids)), self._offsets, np.diff(self._offsets))
        self.length = length
        self._windows = ChannelWindows(places, length, seed, together=packing)

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def tokens(self) -> int:
        return len(self._ids)

    @property
    def fill(self) -> float:
        """The share of the rows' positions that hold a token."""
        return (len(self._ids) - len(self._channel)) / (len(self) * self.length)

    def weights(self, channels: Sequence[float], prompt: float) -> list[float]:
        """List the weights of `names`, of those of the channels and of a prompt's token."""
        return [*channels, *(prompt * weight for weight in channels if self._prompts)]

    def batch(self, positions: range) -> Batch:
        """Stack the rows at these positions of the run; `documents` numbers samples over the whole run."""
        nothing = np.zeros(self.length, np.int64)
        empty = Window(nothing, nothing + IGNORED, nothing)
        windows = [empty if position in self.empty else self._windows.window(position) for position in positions]
        inputs, following, documents = (np.stack([getattr(window, name) for window in windows])
                                        for name in ("inputs", "targets", "documents"))
        documents += np.array(positions)[:, None] * (self.length + 1)
        filled = following != IGNORED
        following = np.maximum(following, 0)
        answers = filled & self._answers[following]
        scored = filled if self._prompts else answers
        channels = self._channel[np.searchsorted(self._offsets, inputs, side="right") - 1]
        channels = channels + len(self.channels) * (filled & ~answers & self._prompts)
        targets = np.where(scored, self._ids[following], IGNORED).astype(np.int64)
        arrays = self._ids[inputs].astype(np.int64), targets, channels, documents
        width = self.length if self._packing else max(1, int(filled.sum(axis=1).max()))
        return Batch(*(array[:, :width] for array in arrays))


def sample_parser(tokenizer: Any, max_length: int, *, prompts: bool = False) -> Callable[[dict[str, Any]], Sample]:
    """Return a function that makes a Sample of a JSON record, or raises ParseError with the reason.

    `prompts`: its last answer is to be generated."""

    def parse(record: dict[str, Any]) -> Sample:
        channel = channel_of(record)
        if "text" in record and "messages" not in record:
            text = tokenizer(check_text(record, "text"), add_special_tokens=False)["input_ids"]
            ids = [token for token in (tokenizer.bos_token_id, *text, tokenizer.eos_token_id) if token is not None]
            return Sample(np.array(ids, np.int32), np.ones(len(ids), np.bool_), channel)
        (messages,) = turns_of("instructions", record, "messages")
        tools = record.get("tools")
        learnt = learnt_turns(record)
        ids, marks = encode_answers(tokenizer, messages, tools)
        marks = learnt_marks(marks, [learnt[at] for at, each in enumerate(messages) if each["role"] == "assistant"])
        check_length(ids, max_length)
        if not any(marks[1:]):
            raise ParseError("the chat template renders no words of the assistant")
        sample = Sample(np.array(ids, np.int32), np.array(marks, np.bool_), channel)
        if not prompts:
            return sample
        last = max(index for index, each in enumerate(learnt) if each)
        prompt, reply = tuple(encode_prompt(tokenizer, messages[:last], tools)), messages[last]["content"].strip()
        return Sample(sample.ids, sample.answers, channel, prompt, reply or None)  # none of a call without words

    return parse


def pretraining_samples(config: SFTConfig, tokenizer: Any, tokens: int) -> list[Sample]:
    """Draw documents of the tokenize step that training may see, until they are the config's share beside `tokens` of
    conversations; the last one is cut there. Conversations that were tokenized with them are passed over.

    Raises InputError: the files are of another tokenizer."""
    directory = given_directory("tokenized", config.tokenized, "tokenize")
    check_tokenizer(directory, tokenizer, "tokenize with the checkpoint's, or set pretraining_share=0")
    found = [channel for name, channel in read_channels(directory, "train").items() if name != RESERVED_CHANNEL]
    firsts = np.cumsum([0, *(channel.documents for channel in found)])
    missing = round(tokens * config.pretraining_share / (1 - config.pretraining_share))
    samples: list[Sample] = []
    for position in range(int(firsts[-1])):
        number = permuted_index(position, int(firsts[-1]), derive_seed("pretraining", config.seed))
        which = int(np.searchsorted(firsts, number, side="right")) - 1
        channel, document = found[which], number - int(firsts[which])
        ids = channel.tokens[channel.offsets[document] : channel.offsets[document + 1]][:missing].astype(np.int32)
        if len(ids) > 1:  # of one token, nothing is learnt
            samples.append(Sample(ids, np.ones(len(ids), np.bool_), f"pretraining/{channel.name}"))
        missing -= len(ids)
        if missing < 1:
            break
    else:
        print(f"the tokenized texts end {missing:,} tokens before pretraining_share={config.pretraining_share} is met")
    return samples


class InstructionLoss(LossModule):
    """The losses of packed conversations: positions begin anew in each, and its embeddings may be noisy.

    NEFTune (Jain et al. 2023): to each number of the embeddings of a conversation of n tokens is added, in training
    alone, noise that is uniform in +-`noise` / sqrt(n * hidden_size). A row's noise depends on the phase's seed and the
    row's place in the run, whatever process trains on it, and however often the run was resumed."""

    def __init__(self, model: Any, channels: int, phase: TrainConfig, noise: float) -> None:
        dtype = getattr(torch, phase.dtype)
        super().__init__(model, channels, dtype, phase.z_loss, phase.sequence_length, phase.attention)
        self._noise, self._seed = noise, phase.seed
        self.skips_ignored = True

    def hidden(self, given: Tensor, documents: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Return the last hidden states, as PackedModel does; `documents` has numbers that no other row has."""
        if documents is not None:
            within, sizes = places(documents)
            positions = within[:, self.seen] if self.training else within
            if self._noise and self.training and given.ndim == 2:
                given = self.model.get_input_embeddings()(given)
                width, generator = given.shape[2], torch.Generator(given.device)
                drawn = given.new_empty(*documents.shape, width)  # of whole rows
                for row, first in zip(drawn, documents[:, 0].tolist(), strict=True):
                    row.uniform_(-1, 1, generator=generator.manual_seed(derive_seed(self._seed, "noise", first)))
                noise = drawn * (self._noise / (sizes * width).sqrt()).unsqueeze(2).to(drawn.dtype)
                given = given + noise[:, self.own]
        return super().hidden(given, documents, positions)


def finetune(stage: Stage[SFTConfig], model: Any, rows: Rows, evaluate: Evaluate | None = None) -> Trained:
    """Train `model` on `rows`; `evaluate` measures it on the way, where the config has held-out points there."""
    config, group = stage.config, stage.group
    phase = config.phase(amount_of(config, rows).steps, config.batch_size, rows.length)
    weights = rows.weights(loss_weights(phase, rows.channels), config.prompt_weight)
    with explained(phase, model, group):
        engine = make_engine(model, len(rows.names), phase, group,
                             lambda model: InstructionLoss(model, len(rows.names), phase, config.neftune_noise))
        if config.loss_weights or config.prompt_weight:
            engine.weigh(weights)
        if config.teacher:
            engine.module.teacher = Teacher(phase, engine.module, stage.source.tokenizer)
        updates = Sampled(phase, stage.context, engine, rows, None, stage.exporter)
        whole = None
        if evaluate and config.heldout_points > 1:
            whole = WholeModel(engine, stage.model)
            updates.measure = stage.during(evaluate, phase, engine, whole, [phase.tokens_per_step] * phase.steps)
        Loop(phase, stage.context, engine, updates).run()
        whole = whole or WholeModel(engine, stage.model)
    return Trained(phase.steps, phase.steps * phase.tokens_per_step, whole.refresh())


def amount_of(config: SFTConfig, rows: Rows) -> Amount:
    """Return what training over `rows` comes to. Raises InputError: they do not fill a batch."""
    return config.amount(len(rows), f"rows of {rows.length:,} tokens that the conversations fill", rows.tokens)


def make_rows(config: SFTConfig, samples: Sequence[Sample], longest: int) -> Rows:
    """Lay the samples out in rows of at most `longest` tokens, and say how full they are."""
    if not config.packing:
        longest = min(longest, max(len(sample.ids) for sample in samples))
    length = longest - longest % (config.sequence_parallel * config.tensor_parallel)
    rows = Rows(samples, length, derive_seed("sampling", config.seed, config.stage), packing=config.packing,
                prompts=config.prompt_weight > 0)
    if not config.max_steps:
        rows.empty = range(math.ceil(config.epochs * len(rows)), config.whole_steps(len(rows)) * config.batch_size)
    print(f"{len(samples):,} samples in {len(rows):,} rows of {length:,} tokens, {rows.fill:.0%} full", flush=True)
    return rows


def choose(samples: Sequence[Sample], count: int) -> list[Sample]:
    """Choose `count` samples (all, where there are fewer) from all over them, always the same ones, in their order."""
    chosen = random.Random(0).sample(range(len(samples)), min(count, len(samples)))
    return [samples[index] for index in sorted(chosen)]


def instruction_loss(model: Any, samples: Sequence[Sample]) -> dict[str, float]:
    """Return the mean cross-entropy of the assistant's tokens in nats, as `heldout/instruction_loss`, and that of each
    channel, where there are several, as `heldout/instruction_loss/<channel>`."""
    rows = [Row(sample.ids.tolist(), np.where(sample.answers, sample.ids, IGNORED)[1:].tolist(), sample.channel)
            for sample in samples]
    sums: dict[str, Tensor] = {}
    own = model.config._attn_implementation
    module = LossModule(model, 1, torch.float32, 0.0, max(len(row.targets) for row in rows), "sdpa").eval()
    for batch, nats in nats_of(module, rows):
        for row, summed in zip(batch, nats.double().sum(dim=1).tolist(), strict=True):
            sums[row.channel] = sums.get(row.channel, 0) + torch.tensor([summed, row.scored], dtype=torch.float64)
    model.set_attn_implementation(own)
    found = {f"/{name}": nats / count for name, (nats, count) in sorted(sums.items())} if len(sums) > 1 else {}
    total = torch.stack(list(sums.values())).sum(dim=0)
    return {f"heldout/instruction_loss{name}": float(loss) for name, loss in {"": total[0] / total[1], **found}.items()}


def exact_match(model: Any, tokenizer: Any, samples: Sequence[Sample], decoding: Decoding) -> dict[str, float]:
    """Return as `heldout/exact_match` the part of the conversations whose last turn the model answers with the same
    text; nothing where there is none."""
    asked = [(sample.prompt, sample.reply) for sample in samples if sample.reply is not None]
    greedy = replace(decoding, scored=False)
    answers = TransformersDecoder(model)([prompt for prompt, _ in asked], [[0] for _ in asked], greedy).tokens
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    right = [text.strip() == reply.strip() for text, (_, reply) in zip(texts, asked, strict=True)]
    return {"heldout/exact_match": sum(right) / len(right)} if right else {}
