"""Configs, tokenizers and weights as transformers reads them, from a directory or a GGUF file.

All calls of its `from_pretrained` and `from_config` are here (a test holds it): none of them runs Python code that lies
beside a model. By default transformers asks on standard input whether to, and takes a `y` of whoever pipes one in."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.step.machine import multiplies
from argosy.core.store.files import read_record

GGUF = ".gguf"
EXPORTED = ("float32", "bfloat16", "float16")  # precisions that exports have
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")  # transformers converts
NO_TOKENIZER = ("has no tokenizer.json: copy it from where the model is from, or save it with "
                "AutoTokenizer.from_pretrained(...).save_pretrained(...) where the tokenizer's library is installed")
_NO_CODE = {"trust_remote_code": False}
_WITH_CODE = ("config.json", "tokenizer_config.json")


def load_config(path: Path) -> Any:
    """Load the configuration of the model in `path`. Raises as `loading`."""
    from transformers import AutoConfig

    with loading(path), _source(path) as (place, more):
        return AutoConfig.from_pretrained(place, **more)


def load_tokenizer(path: Path) -> Any:
    """Load the tokenizer in `path`. Raises as `loading`."""
    from transformers import AutoTokenizer

    with loading(path), _source(path) as (place, more):
        try:
            tokenizer = AutoTokenizer.from_pretrained(place, **more)
        except Exception as error:  # of transformers, which names all that it has tried, and the file not at all
            if has_tokenizer(path) or "trust_remote_code" in str(error) or not (path / "config.json").is_file():
                raise
            raise InputError(f"checkpoint {path} {NO_TOKENIZER}") from None
        if path.is_dir() and not has_tokenizer(path) and getattr(tokenizer, "backend_tokenizer", None) is not None:
            raise InputError(f"checkpoint {path} {NO_TOKENIZER}")  # it has no word; one of bytes needs no file
        return tokenizer


def has_tokenizer(path: Path) -> bool:
    """Tell whether a directory has one of the files that tokenizers are made of."""
    return any((path / name).is_file() for name in _TOKENIZERS)


def load_weights(path: Path, kind: str, **fields: Any) -> tuple[Any, Mapping[str, Any]]:
    """Load the weights in `path`; `fields`: more arguments of transformers.

    Returns the model, and what transformers reports: missing, unexpected and mismatched keys. Raises as `loading`."""
    import transformers

    with loading(path), _source(path) as (place, more):
        model, report = getattr(transformers, kind).from_pretrained(
            place, output_loading_info=True, ignore_mismatched_sizes=True, **more, **fields)
    return model, report


def random_model(config: Any) -> Any:
    """Make a causal model of a configuration of transformers with random weights, float32."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config, dtype="float32", **_NO_CODE)


def weights_dtype(path: Path) -> str:
    """Name the precision of the weights in `path` as transformers reads it: of config.json, else of the first tensor;
    those of a GGUF file are dequantized to float32."""
    about = read_record(path / "config.json")
    named = about.get("dtype") or about.get("torch_dtype")
    if named is None and (files := sorted(path.glob("*.safetensors"))):
        from safetensors import safe_open

        with loading(path), safe_open(files[0], "pt") as tensors:
            first = next((tensors.get_tensor(key) for key in tensors.keys()), None)  # noqa: SIM118
            named = "float32" if first is None else str(first.dtype).removeprefix("torch.")
    return str(named) if named in EXPORTED else "float32"


def settled_dtype(dtype: str, own: str, *, gpu: bool) -> str:
    """Settle the precision that a model is loaded and asked in.

    Args:
        dtype: auto, weights or a precision.
        own: precision of the weights; "" where nobody knows it yet.
        gpu: whether it runs on a GPU.

    Returns:
        `weights`, for their own; or one that differs from it. auto: float32, which holds every number of the others,
        where a CPU has no instructions for theirs."""
    if dtype == "auto":
        dtype = "weights" if gpu or multiplies(own or "bfloat16") else "float32"
    return "weights" if dtype == own else dtype


def is_gguf(path: Path) -> bool:
    return path.suffix.lower() == GGUF and path.is_file()


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Say which checkpoint an error is about: whatever is wrong with its files, it is this one that is wrong. Raises
    InputError: it cannot be loaded, or not without its own code; StepError: it has disappeared meanwhile."""
    try:
        yield
    except ArgosyError:
        raise
    except Exception as error:
        if not is_gguf(path) and not any((path / name).is_file() for name in ("config.json", "tokenizer.json")):
            raise StepError(f"checkpoint {path} has disappeared while it was loaded: run its training step again, "
                            "then this") from error
        if "trust_remote_code" in str(error):
            raise InputError(f"checkpoint {path} needs Python code of its own ({_code_of(path)}), which is never run "
                             "here; allowed: a model and a tokenizer of types that transformers has itself. Save it "
                             "as one of them where its code is trusted, and name that") from None
        raise InputError(f"cannot load the checkpoint {path}: {error}") from error


@contextmanager
def _source(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the directory that transformers loads from, and the arguments that every call has.

    A GGUF file is loaded from a directory of its own: in its folder, files of other models would be read as its own.
    Raises as `require_gguf`."""
    if not is_gguf(path):
        yield path, _NO_CODE
        return
    require_gguf(path)
    with TemporaryDirectory(prefix="argosy-gguf-") as alone:
        (Path(alone) / path.name).symlink_to(path.resolve())
        yield Path(alone), {**_NO_CODE, "gguf_file": path.name}


def require_gguf(path: Path) -> None:
    """Check that `path` begins as a GGUF file, and that the package is there that reads it. Raises InputError: not."""
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{path} is no GGUF file, as it does not begin as one: copy it anew, or name another")
    if find_spec("gguf") is None:
        raise InputError(f"{path} is a GGUF file, which the package gguf reads: install it (pip install "
                         "'argosy[gguf]', or pip install gguf), or name a directory that transformers loads")


def _code_of(path: Path) -> str:
    found = [read_record(path / name).get("auto_map") for name in _WITH_CODE]
    named = [code for each in found if isinstance(each, dict) for code in each.values()]  # a tokenizer's is a list
    classes = {str(one) for code in named for one in (code if isinstance(code, list) else [code]) if one}
    return f"auto_map: {', '.join(sorted(classes))}"
