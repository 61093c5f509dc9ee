"""A tokenized data set and a tokenizer on disk, in the formats of docs/files.md, from given texts."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.spool import OF_THE_RUN
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.tokens.mixture import Batch
from tests.tokenizer_fixtures import make_bpe


class Recorder(Tracker):
    """Keeps what is logged, once each; a crash at a chosen optimizer step stands for a killed process.

    `watched` has what tells how a run went, in which equal runs differ."""

    def __init__(self, crash_at: int | None = None) -> None:
        super().__init__(None)
        self.crash_at = crash_at
        self.logged: dict[tuple[str, int], float] = {}
        self.watched: dict[tuple[str, int], float] = {}
        self.models: dict[str, tuple[int, int]] = {}

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        if step == self.crash_at:
            raise KeyboardInterrupt
        for name, value in values.items():
            if name.startswith(OF_THE_RUN):
                self.watched[name, step] = value
            else:
                assert self.logged.setdefault((name, step), value) == value

    def model(self, name: str, path: Path, *, stage: str, step: int, tokens: int,
              tags: Mapping[str, str] | None = None) -> None:
        self.models[name] = (step, tokens)


def run_here(module: Any, out: Path, tracker: Tracker | None = None, progress: Progress | None = None,
             **values: Any) -> Any:
    """Run a step in this process; paths in `values` become texts. Returns its outputs, which are written down too."""
    out.mkdir(parents=True, exist_ok=True)
    fields = {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}
    context = StepContext(out, tracker or Tracker(None), progress or Progress(None))
    outputs = module.run(module.STEP.config.model_validate(fields), context)
    (out / "outputs.json").write_text(json.dumps({"outputs": outputs.model_dump(mode="json")}))
    return outputs


def dying(method: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """The same until it has been called so many times: then a death just after its work."""
    left = [calls]

    def call(*given: Any, **named: Any) -> Any:
        found = method(*given, **named)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return found

    return call


def digests(out: Path) -> dict[str, str]:
    """Return the digests of the checkpoints' files but `base.json`, which tells the way from `out` to another one."""
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((out / "checkpoints").rglob("*")) if path.is_file() and path.name != "base.json"}


def make_texts(channel: str, count: int, seed: int = 0, words: int = 20) -> list[str]:
    """Texts of 1 to `words` words; each word is drawn from a small vocabulary of the channel's own."""
    rng = np.random.default_rng([seed, *channel.encode()])
    vocabulary = [f"{channel[0]}{a}{b}" for a in "aeiou" for b in "lmnrst"]
    return [" ".join(rng.choice(vocabulary, rng.integers(1, words + 1))) for _ in range(count)]


def write_tokenized(directory: Path, splits: Mapping[str, Mapping[str, Sequence[tuple[Sequence[int], int]]]],
                    vocab_size: int) -> None:
    """Write `{split: {channel: [(token ids with bos and eos, bytes), ...]}}` as the tokenize step does."""
    index: dict[str, Any] = {"dtype": "uint16", "vocab_size": vocab_size, "channels": {}}
    for split, channels in splits.items():
        (directory / split).mkdir(parents=True, exist_ok=True)
        for name, documents in channels.items():
            ids = np.array([token for tokens, _ in documents for token in tokens], np.uint16)
            ids.tofile(directory / split / f"{name}.bin")
            offsets = np.cumsum([0, *(len(tokens) for tokens, _ in documents)]).astype(np.int64)
            sizes = np.array([size for _, size in documents], np.int64)
            np.save(directory / split / f"{name}.offsets.npy", offsets)
            np.save(directory / split / f"{name}.bytes.npy", sizes)
            index["channels"].setdefault(name, {})[split] = {
                "tokens": len(ids), "documents": len(documents), "bytes": int(sizes.sum())}
    (directory / "index.json").write_text(json.dumps(index))


def write_tokens(directory: Path, tokenizer: Any, splits: Mapping[str, Mapping[str, Sequence[str]]]) -> Path:
    """The same of texts by channel by split, with any tokenizer; returns the directory."""

    def encode(text: str) -> tuple[list[int], int]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id], len(text.encode())

    encoded = {split: {name: [encode(text) for text in texts] for name, texts in channels.items()}
               for split, channels in splits.items()}
    write_tokenized(directory, encoded, len(tokenizer))
    return directory


def make_data(directory: Path, channels: Mapping[str, int], words: int = 20) -> Any:
    """`directory/tokenizer` and the tokenized `directory` of `channels` (documents by name); returns the tokenizer."""
    texts = {name: make_texts(name, count, words=words) for name, count in channels.items()}
    tokenizer = make_bpe([text for some in texts.values() for text in some], 320)
    tokenizer.save_pretrained(directory / "tokenizer")
    write_tokens(directory, tokenizer, {"train": {name: some[8:] for name, some in texts.items()},
                                        "heldout": {name: some[:8] for name, some in texts.items()}})
    return tokenizer


class Devices:
    """The models that a step makes, and which of them it puts on its device: a CPU by another name, `cpu:0`."""

    def __init__(self, monkeypatch: Any) -> None:
        import torch
        from transformers import PreTrainedModel

        from argosy.core.step.contract import StepContext

        device = torch.device("cpu", 0)
        self.made: list[Any] = []
        self._moved: set[int] = set()
        make, move = PreTrainedModel.__init__, torch.nn.Module.to

        def made(model: Any, *args: Any, **fields: Any) -> None:
            make(model, *args, **fields)
            self.made.append(model)

        def moved(model: Any, *args: Any, **fields: Any) -> Any:
            if device in args:
                self._moved |= {id(part) for part in model.modules()}
            return move(model, *args, **fields)

        monkeypatch.setattr(PreTrainedModel, "__init__", made)
        monkeypatch.setattr(torch.nn.Module, "to", moved)
        monkeypatch.setattr(StepContext, "device", property(lambda _: device))

    def elsewhere(self) -> list[str]:
        """The classes of the models that were never put on the device."""
        return [type(model).__name__ for model in self.made if id(model) not in self._moved]


TINY_MODEL: dict[str, Any] = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
                              "num_attention_heads": 2, "num_key_value_heads": 2}


def tiny_engine(channels: int = 1, **fields: Any) -> Any:
    """An engine of one process around a model of one block, whose weights are always the same."""
    import torch

    from argosy.model.train.config import TrainConfig
    from argosy.model.train.config.model import ModelConfig
    from argosy.model.train.engines import make_engine
    from argosy.model.train.parallelism import Group
    from argosy.model.train.phase import build_model
    from argosy.model.weights.adapters.places import freeze

    torch.manual_seed(0)
    config = TrainConfig(**{"sequence_length": 16, "global_batch_size": 4, "dtype": "float32", **fields})
    model = build_model(ModelConfig.model_validate(TINY_MODEL), 64, {})
    freeze(model, config.frozen)
    return make_engine(model, channels, config, Group())


def change_settings(change: Callable[[dict[str, Any]], Any]) -> None:
    """Change DeepSpeed's configuration of all engines to come of this process, in place."""
    from argosy.model.train.engines import deepspeed

    settings = deepspeed.settings

    def changed(*given: Any) -> dict[str, Any]:
        made = settings(*given)
        change(made)
        return made

    deepspeed.settings = changed


def random_batch(number: int, channels: int = 1) -> Batch:
    """Four samples of 16 tokens, those of one number always the same; the channels take turns."""
    ids = np.random.default_rng(number).integers(0, 64, (4, 17))
    places = np.arange(64).reshape(4, 16) % channels
    return Batch(ids[:, :-1].copy(), ids[:, 1:].copy(), places, np.zeros((4, 16), np.int64))


def weights_of(engine: Any) -> Any:
    import torch

    return torch.cat([each.detach().flatten() for each in engine.module.parameters()])
