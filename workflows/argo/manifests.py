"""All manifests of a profile, as what `kubectl apply` takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from argosy.storage import make_directory, write_atomic
from workflows.argo.evaluate_template import evaluate_template
from workflows.argo.nightly_template import nightly_template
from workflows.argo.profile import Profile
from workflows.argo.profile_load import config_map
from workflows.argo.rights import rights
from workflows.argo.templates import lifecycle_template

Manifest = dict[str, Any]
PROFILE = "argosy/profile"  # label of the ConfigMaps with profiles


def manifests(profile: Profile) -> dict[str, list[Manifest]]:
    """Documents by file name (without .yaml)."""
    return {
        "rights": list(rights(profile)),
        "profile": [_profile(profile)],
        **{each["metadata"]["name"]: [each] for each in _templates(profile)},
    }


def write_manifests(profile: Profile, folder: Path) -> list[Path]:
    """Write a file for each, and the kustomization that lists them; returns their paths."""
    make_directory(folder)
    files = {f"{name}.yaml": documents for name, documents in manifests(profile).items()}
    files["kustomization.yaml"] = [_kustomization(list(files))]
    for name, documents in files.items():
        write_atomic(folder / name, to_yaml(documents))
    return [folder / name for name in files]


def to_yaml(documents: Sequence[Manifest]) -> str:
    """Documents as YAML, with long texts left whole and blocks where there are lines."""
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120)


def _templates(profile: Profile) -> Iterator[Manifest]:
    yield lifecycle_template(profile).to_dict()
    yield evaluate_template(profile).to_dict()
    yield nightly_template(profile)


def _kustomization(files: list[str]) -> Manifest:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": files}


def _profile(profile: Profile) -> Manifest:
    """The profile as a file, for the pods of workflows that name it."""
    text = yaml.safe_dump(profile.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    labels = {"app.kubernetes.io/part-of": "argosy", PROFILE: profile.name}
    metadata = {"name": config_map(profile.name), "namespace": profile.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {f"{profile.name}.yaml": text}}
