"""Models of the Hugging Face hub, by name and commit: a branch names no one result."""

import re
from pathlib import Path

from argosy.core.errors import InputError, StepError

_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
EXAMPLE = "Qwen/Qwen3-0.6B@<the 40 hexadecimal digits of a commit>"
FILES = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt")  # configs, weights, tokenizers


def is_hub_name(model: str, field: str = "model") -> bool:
    """Tell whether `model`, a config's `field`, is no directory but `org/name@commit`, or would be with another commit.
    Raises ValueError: it is meant to be one, and names no commit."""
    name, at, commit = model.partition("@")
    if not _NAME.fullmatch(name) or name.startswith(".") or Path(model).exists():
        return False
    if _COMMIT.fullmatch(commit):
        return True
    what = f"{commit!r} is no commit" if at else "there is no such directory, and a name of the hub needs a commit"
    raise ValueError(f"{field} is {model!r}: {what}, since a branch or tag names no one result; allowed: a "
                     f"directory, or {EXAMPLE}, which the model's page lists under 'Files and versions', History")


def download(name: str, field: str = "start.model") -> Path:
    """Download `org/name@commit` into the cache of huggingface_hub (HF_HOME, HF_TOKEN); returns its directory.

    What is there already is not fetched again, nor is anything with HF_HUB_OFFLINE=1. Weights are those in safetensors.
    Raises InputError: there is no such model or commit, or it may not be read; StepError: the hub cannot be reached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    repository, _, commit = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=commit, allow_patterns=list(FILES), ignore_patterns="*/*"))
    except (HfHubHTTPError, HFValidationError) as error:
        status = getattr(getattr(error, "response", None), "status_code", 404)
        if status in (429, 500, 502, 503, 504):
            raise StepError(f"{field} is {name!r}: the hub answers {status}: run it again later") from error
        raise InputError(f"{field} is {name!r}, which the hub does not give: {_first_line(error)}; correct the "
                         "name and the commit, or set HF_TOKEN where the model is private or gated") from error
    except Exception as error:  # no network, offline, no space; a connection that breaks is an error of its HTTP client
        raise StepError(f"{field} is {name!r}, which cannot be downloaded: {_first_line(error)}; copy the model "
                        "to a directory, and name that") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
