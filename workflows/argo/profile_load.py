"""Profiles by name (those that Argosy ships) or as a YAML file of one's own."""

from __future__ import annotations

import os
from pathlib import Path

from argosy.config_explain import nearest
from argosy.config_load import load
from argosy.errors import InputError
from workflows.argo.profile import Profile

SHIPPED = Path(__file__).parent / "profiles"
FOLDER = "ARGOSY_PROFILES"  # further profiles: in pods, the ConfigMap of the one that the workflow was given


def config_map(profile: str) -> str:
    """Name of the ConfigMap that holds a profile in the cluster: one each, so that they live side by side."""
    return f"argosy-profile-{profile}"


def profile_names() -> list[str]:
    """Names of all profiles that `load_profile` finds without a path."""
    return sorted({path.stem for folder in _folders() for path in folder.glob("*.yaml")})


def is_shipped(name: str) -> bool:
    """Whether pods find the profile without a ConfigMap: it is in their image."""
    return (SHIPPED / f"{name}.yaml").is_file()


def load_profile(name: str) -> Profile:
    """The profile `name`, or of the YAML file `name`; its name is the file's unless it says another.

    Raises:
        InputError: there is none, or it is wrong.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else _find(name)
    if not path.is_file():
        raise InputError(f"profile {name}: there is no such file")
    return load(Profile, [{"name": path.stem}, path])


def _find(name: str) -> Path:
    for folder in _folders():
        if (path := folder / f"{name}.yaml").is_file():
            return path
    known = profile_names()
    near = nearest(name, known)
    raise InputError(
        f"profile is {name!r}, allowed: {', '.join(known)}, or the path of a YAML file"
        + (f"; nearest: {near[0]}" if near else "")
    )


def _folders() -> list[Path]:
    own = os.environ.get(FOLDER)
    return [*([Path(own)] if own else []), SHIPPED]
