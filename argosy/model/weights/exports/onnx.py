"""ONNX: one graph for prompts and for tokens after them, batch and lengths free, keys and values as inputs and outputs.

Inputs are input_ids, attention_mask (1 for a token, also for those of the cache), position_ids, and for each layer
past_key_values.N.key and .value, (batch, heads, tokens before, width), of no tokens for a prompt; outputs are logits
and present.N.key and .value: the names that Optimum gives them, which onnxruntime-genai and transformers.js know."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from argosy.core.errors import StepError
from argosy.model.weights.exports import Format, Source

if TYPE_CHECKING:
    from torch import Tensor

FILE = "model.onnx"  # with model.onnx.data, the weights
CLOSE = 1e-3  # largest difference of a logit that is float32's rounding
OPSET = 20


class Onnx(Format):
    name: ClassVar[str] = "onnx"
    packages: ClassVar[tuple[str, ...]] = ("onnx", "onnxscript", "onnxruntime")
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)

    def write(self, source: Source, out: Path) -> dict[str, float]:
        """Write the graph and the tokenizer, and hold the graph to the model, in onnxruntime."""
        from argosy.model.weights.formats.files import copy_side
        from argosy.model.weights.formats.layouts import read_shape
        from argosy.model.weights.load import load_model
        from argosy.model.weights.pretrained import load_config

        read_shape(load_config(source.path), "the exported graph")
        model = load_model(source.path).eval()
        model.set_attn_implementation("eager")
        write_graph(model, out / FILE)
        copy_side(source.path, out)
        worst = difference(model, out / FILE)
        if not worst <= CLOSE:
            raise StepError(f"the logits of {FILE} differ from the model's by {worst:.2g}, allowed: {CLOSE:g}: this "
                            "version of torch or onnxruntime computes something else; take another")
        print(f"{FILE}: logits as the model's to {worst:.1g}, with a cache and without", flush=True)
        return {"difference": worst}


def write_graph(model: Any, file: Path) -> None:
    """Write the graph of a float32 model whose attention takes a mask that is added."""
    import torch
    from torch.export import Dim

    graph, free = _graph(model), Dim.DYNAMIC
    cache = [{0: free, 2: free} for _ in range(2 * model.config.num_hidden_layers)]
    shapes = ({0: free, 1: free}, {0: free, 1: free}, {0: free, 1: free}, cache)
    names = [f"{{}}.{layer}.{part}" for layer in range(model.config.num_hidden_layers) for part in ("key", "value")]
    with torch.no_grad():
        torch.onnx.export(
            graph, sample(model, 2, 3, 5), file, dynamo=True, dynamic_shapes=shapes, opset_version=OPSET, verbose=False,
            input_names=["input_ids", "attention_mask", "position_ids", *(n.format("past_key_values") for n in names)],
            output_names=["logits", *(name.format("present") for name in names)])


def sample(model: Any, batch: int, length: int, before: int) -> "tuple[Tensor, Tensor, Tensor, list[Tensor]]":
    """Draw inputs of the graph: tokens, mask, positions, keys and values of `before` tokens."""
    import torch

    from argosy.model.weights.formats.layouts import read_shape

    shape, generator = read_shape(model.config), torch.Generator().manual_seed(0)
    tokens = torch.randint(shape.vocab, (batch, length), generator=generator)
    places = torch.arange(before, before + length).repeat(batch, 1)
    cache = [torch.randn(batch, shape.kv_heads, before, shape.head_dim, generator=generator)
             for _ in range(2 * shape.layers)]
    return tokens, torch.ones(batch, length + before, dtype=torch.int64), places, cache


def _graph(model: Any) -> Any:
    """Wrap a model in a module of tensors alone."""
    import torch
    from transformers import DynamicCache

    class Cache(DynamicCache):
        """Keys and values of the layers, joined with those before."""

        def __init__(self, past: "list[Tensor]") -> None:
            super().__init__()
            self.past, self.present = past, []  # type: list[Tensor], list[Tensor]

        def update(self, key_states: "Tensor", value_states: "Tensor", layer_idx: int, *args: Any, **kwargs: Any
                   ) -> "tuple[Tensor, Tensor]":
            keys, values = self.past[2 * layer_idx : 2 * layer_idx + 2]
            joined = (torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2))
            self.present += joined
            return joined

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return int(self.past[0].shape[2])

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: "Tensor", mask: "Tensor", places: "Tensor", past: "list[Tensor]") -> Any:
            before = past[0].shape[2]
            at = torch.arange(mask.shape[1])
            seen = (at[None, :] <= before + torch.arange(tokens.shape[1])[:, None])[None, None]
            allowed = seen & mask[:, None, None, :].bool()
            added = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
            cache = Cache(past)
            logits = self.model(input_ids=tokens, attention_mask=added, position_ids=places, past_key_values=cache,
                                use_cache=True).logits
            return (logits, *cache.present)

    return Graph().eval()


def difference(model: Any, file: Path) -> float:
    """Return the largest difference of a logit between the model and the graph: of prompts padded on the left, and of
    the tokens after them with the cache that the graph made."""
    import torch

    session = open_session(file)
    batch, length, more = 3, 7, 2
    tokens, mask, _, _ = sample(model, batch, length + more, 0)
    mask[1, :4] = 0
    places = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        wanted = model(input_ids=tokens, attention_mask=mask, position_ids=places, use_cache=False).logits
    empty = sample(model, batch, 1, 0)[3]
    first = ask(session, tokens[:, :length], mask[:, :length], places[:, :length], empty)
    second = ask(session, tokens[:, length:], mask, places[:, length:], first[1:])
    found = torch.cat([first[0], second[0]], dim=1)
    return float((found - wanted)[mask.bool()].abs().max())


def open_session(file: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def ask(session: Any, tokens: "Tensor", mask: "Tensor", places: "Tensor", cache: "list[Tensor]") -> "list[Tensor]":
    """Run a graph: logits, then keys and values of each layer."""
    import torch

    given = zip([each.name for each in session.get_inputs()], [tokens, mask, places, *cache], strict=True)
    return [torch.from_numpy(each) for each in session.run(None, {name: each.numpy() for name, each in given})]
