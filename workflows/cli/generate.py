"""`argosy generate`: continue prompts with a checkpoint; and what it shares with `argosy chat`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import InputError
from argosy.core.step.machine import device_kind
from argosy.corpus.data.split import derive_seed
from workflows.cli.command import Command, add_store, checked, positive
from workflows.stored.last_run import model_directory
from workflows.stored.registry import MODELS, named_by

if TYPE_CHECKING:
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import Checkpoint


def configure(parser: argparse.ArgumentParser) -> None:
    add_sampling(parser, temperature=0.0)
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help="text to continue; several are continued in turn")
    parser.add_argument("--chat", action="store_true", help="ask each prompt as a user's turn of the chat template")


def add_sampling(parser: argparse.ArgumentParser, temperature: float) -> None:
    """Add the checkpoint, and how text is drawn from it."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint's name, or a directory")
    parser.add_argument("--max-tokens", type=positive, default=256, metavar="N", help="of an answer (default: 256)")
    from_0 = checked(float, "a number from 0 on", lambda number: 0 <= number < float("inf"))
    parser.add_argument("--temperature", type=from_0, default=temperature, metavar="T",
                        help=f"0 takes the likeliest token each time (default: {temperature:g})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of what is drawn (default: 0)")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    model = open_model(args, chat=args.chat)
    prompts = args.prompts or [sys.stdin.read()]
    for turn, prompt in enumerate(prompts):
        if prompts[1:]:
            print(f"> {prompt}")
        say(model, model.chat(prompt) if args.chat else prompt, args, turn, chat=args.chat)
    return 0


def open_model(args: argparse.Namespace, *, chat: bool) -> "LanguageModel":
    """Load the checkpoint that the command line names; say if it has learnt no chat."""
    from argosy.model.infer.model import LanguageModel

    checkpoint, dtype = opened(args.store, args.checkpoint)
    if chat and checkpoint.ours and not checkpoint.chat:
        print(f"(no stage up to {checkpoint.stage} has trained it on conversations)", file=sys.stderr)
    return LanguageModel.load(checkpoint, dtype=dtype)


def opened(store: Path, name: str, dtype: str = "auto") -> "tuple[Checkpoint, str]":
    """Find a checkpoint by its name, models:/MODEL@ALIAS or directory, and settle the precision to compute it in."""
    from argosy.model.weights.checkpoint import find_checkpoint

    place = named_by(name, store.absolute()).path if name.startswith(MODELS) else name
    checkpoint = find_checkpoint(model_directory(store, place))
    return checkpoint, settle_dtype(dtype, checkpoint, gpu=device_kind() != "cpu")


def settle_dtype(asked: str, checkpoint: "Checkpoint", *, gpu: bool) -> str:
    """Settle the precision that a checkpoint is computed in; say on stderr where auto is not that of its weights."""
    from argosy.model.weights.load import own_dtype
    from argosy.model.weights.pretrained import settled_dtype

    own = own_dtype(checkpoint.path)
    dtype = settled_dtype(asked, own, gpu=gpu)
    if asked == "auto" and dtype != "weights":
        print(f"(computed in {dtype}: the weights are {own}, for which this CPU has no instructions)", file=sys.stderr)
    return dtype


def say(model: "LanguageModel", prompt: str, args: argparse.Namespace, turn: int, *, chat: bool) -> str:
    """Print what follows `prompt`, word by word; return it. `turn`: number of the answer, whose seed follows from it.
    Raises InputError: the prompt leaves no room in the model's context."""
    from transformers import TextStreamer

    from argosy.model.infer.decode import Decoding, TransformersDecoder

    [ids] = model.encode([prompt])
    ids = ids or (model.prefix_token,)
    room = model.max_length - len(ids)
    if room < 1:
        raise InputError(f"the prompt has {len(ids)} tokens and the model's context {model.max_length}: shorten it")
    decoding = Decoding(model.ends(chat=chat), 0, min(args.max_tokens, room), args.temperature, scored=False)
    streamer = TextStreamer(model.tokenizer, skip_special_tokens=True)
    decoder = TransformersDecoder(model.model, heard=lambda tokens: streamer.put(tokens.cpu()))
    [made], _ = decoder([ids], [[derive_seed("texts", args.seed, turn)]], decoding)
    streamer.end()
    text: str = model.tokenizer.decode(made, skip_special_tokens=True)
    return text


COMMAND = Command("generate", "continue prompts with a checkpoint", 63, configure, run)
