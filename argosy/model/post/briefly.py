"""Brief fine-tuning of a checkpoint's copy on texts, by the loop of SFT, within a stated time."""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from argosy.core.errors import StepError
from argosy.core.step.contract import Progress, StepContext
from argosy.core.store.files import publish, temporary_of, write_json
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.data.sources import DEFAULT_CHANNEL
from argosy.model.post.config import SFTConfig
from argosy.model.post.sft import Sample, finetune, make_rows, sample_parser
from argosy.model.post.stage import Source, Stage
from argosy.model.train.parallelism import join_group
from argosy.model.weights.adapters import LoRAConfig
from argosy.model.weights.chat import encode_question, end_tokens
from argosy.model.weights.checkpoint import ABOUT, Checkpoint
from argosy.model.weights.export import save_weights
from argosy.model.weights.pretrained import load_config, load_tokenizer

LARGE = 50_000_000  # parameters of a model of which adapters are trained by default
_WARM_S = 20.0  # before the rest of the training is estimated


class Clock(Progress):
    """A progress that refuses training which would take longer than `minutes`, of `parts` trainings alike."""

    def __init__(self, shown: Progress, minutes: float, parts: int) -> None:
        super().__init__(None)
        self._shown, self._minutes, self._parts = shown, minutes, parts
        self._began, self.part = time.monotonic(), 0
        self._since: tuple[float, float] | None = None

    def update(self, done: float, total: float, unit: str = "", note: str = "", *, force: bool = False) -> None:
        """Report, and estimate the time of all trainings. Raises StepError: it is beyond the limit."""
        self._shown.update(done, total, unit, note or f"part {self.part + 1} of {self._parts}", force=force)
        share = (self.part + done / max(total, 1)) / self._parts
        now = time.monotonic()
        if self._since is None:
            self._since = now, share  # after loading; a resumed training begins with a share
        spent, (at, start) = now - self._began, self._since
        whole = at - self._began + (now - at) * (1 - start) / (share - start) if share > start else spent
        if spent > 60 * self._minutes or (spent > _WARM_S and whole > 60 * self._minutes):
            raise StepError(f"minutes={self._minutes:g} is the limit of training, and {done:,.0f} of {total:,.0f} "
                            f"{unit} of part {self.part + 1} of {self._parts} were done after {spent / 60:.1f}, so "
                            f"that all would take {whole / 60:.1f} or more: raise minutes, or lower epochs or limit")


def asked_sample(tokenizer: Any, text: str) -> Sample:
    """Return a text as a user's turn, of which the words alone are learnt."""
    ids, words = encode_question(tokenizer, text)
    return Sample(np.array(ids, np.int32), np.array(words, np.bool_), DEFAULT_CHANNEL)


def learn_texts(
    checkpoint: Checkpoint, texts: list[str], config: SFTConfig, context: StepContext, name: str, *,
    lora: bool | None, chat: bool,
) -> Checkpoint:  # fmt: skip
    """Fine-tune a copy of a checkpoint on texts, each its own row, and write it to `<out>/<name>`; returns it. One that
    is there is taken as it is, and an interrupted training goes on. Nothing is logged.

    `lora`: whether adapters are trained; None: in a model above LARGE parameters. `chat`: each text is the words of a
    user's turn, without an answer.
    Raises StepError: training has diverged, or exceeds the limit of a Clock; InputError: the chat template changes the
    words."""
    copy = replace(checkpoint, path=context.out / name)
    if copy.path.is_dir():
        return copy
    own = replace(context, out=context.out / f"{name}-training", tracker=Tracker())
    group = join_group(own)
    tokenizer, length = load_tokenizer(checkpoint.path), load_config(checkpoint.path).max_position_embeddings
    stops = end_tokens(tokenizer, chat=bool(tokenizer.chat_template))
    source = Source(checkpoint.path, tokenizer, checkpoint.tokens, length, stops, group.device)
    parse, turn = sample_parser(tokenizer, length), partial(asked_sample, tokenizer)
    rows = make_rows(config, [turn(text) if chat else parse({"text": text}) for text in texts], length)
    model = source.load("AutoModelForCausalLM")
    if lora or (lora is None and model.num_parameters() > LARGE):
        config = config.model_copy(update={"lora": LoRAConfig()})
    stage = Stage(config, own, group, source)
    model = stage.adapt(model)
    trained = finetune(stage, model, rows).model or model
    temporary = temporary_of(copy.path)
    temporary.mkdir(parents=True, exist_ok=True)
    save_weights(trained.eval(), temporary)
    tokenizer.save_pretrained(temporary)
    write_json(temporary / ABOUT, {"stage": copy.stage, "step": copy.step, "tokens": copy.tokens, "chat": copy.chat})
    publish(temporary, copy.path)
    return copy
