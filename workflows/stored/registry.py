"""The checkpoint that an alias of the registry names."""

from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import InputError, StepError
from argosy.core.tracking.ship import Unavailable

if TYPE_CHECKING:
    from argosy.core.tracking.mlflow.registry import Version

MODELS = "models:/"


def named_by(name: str, store: Path, uri: str = "") -> "Version":
    """Find the version that `models:/MODEL@ALIAS` names. `uri`: MLflow's; "": as for every command. Raises InputError:
    it names none; StepError: MLflow does not answer."""
    from argosy.core.tracking.mlflow.registry import Registry
    from argosy.core.tracking.mlflow.server import Server, tracking_uri

    model, _, alias = name.removeprefix(MODELS).rpartition("@")
    try:
        found = Registry(Server(tracking_uri(store, uri), store)).at(model, alias) if model else None
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}") from None
    if found is None:
        raise InputError(f"{name} names nothing in MLflow, allowed: {MODELS}MODEL@ALIAS; 'argosy promote' moves one")
    return found
