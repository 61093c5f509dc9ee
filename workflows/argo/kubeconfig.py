"""The kubeconfig, as the `kubernetes` package reads it; what is wrong with it is told with the file and the place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.yaml_file import read_yaml

DEFAULT = "~/.kube/config"
HINT = "set KUBECONFIG to a file that is there, or --context, or --server URL of an Argo server"


def load_access(settings: Any, context: str) -> str:
    """Fill `settings` (a kubernetes.client.Configuration) from the kubeconfig, or from a pod's own account.

    Returns:
        The context's namespace; empty where it names none.

    Raises:
        InputError: there is neither, the file is broken, or has no such context.
    """
    import yaml
    from kubernetes import config  # type: ignore[import-untyped]

    try:
        return _load(config, settings, context)
    except config.ConfigException as error:
        raise InputError(f"no cluster: {_looked()} ({str(error).rstrip('.')}); {HINT}") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise _broken(error) from None


def _load(config: Any, settings: Any, context: str) -> str:
    file = os.environ.get("KUBECONFIG") or DEFAULT  # the package reads it once, when imported
    try:
        contexts, current = config.list_kube_config_contexts(file)
    except config.ConfigException as error:
        if context:
            raise
        try:
            config.load_incluster_config(settings)
        except config.ConfigException:  # no pod: then the kubeconfig was meant
            raise error from None
        return ""
    names = {each["name"]: each for each in contexts}
    if context and context not in names:
        raise InputError(f"--context is {context!r}, allowed: {', '.join(sorted(names))}")
    config.load_kube_config(file, context=context or None, client_configuration=settings)
    chosen = names[context] if context else current
    return str(chosen["context"].get("namespace") or "")


def _files() -> list[Path]:
    given = os.environ.get("KUBECONFIG") or DEFAULT
    return [Path(each).expanduser() for each in given.split(os.pathsep) if each]


def _looked() -> str:
    given = os.environ.get("KUBECONFIG")
    there = any(path.exists() for path in _files())
    if not given:
        return f"KUBECONFIG is not set, and {DEFAULT} {'names none' if there else 'is not there'}"
    return f"KUBECONFIG is {given}, {'which names none' if there else 'where no file is'}"


def _broken(error: Exception) -> InputError:
    """Names the first file that is no YAML or no mapping; kubectl's own parser may take what ours calls broken."""
    files = [path for path in _files() if path.exists()]
    for path in files:
        try:
            data = read_yaml(path).data
        except InputError as wrong:
            return InputError(f"the kubeconfig cannot be read: {wrong}; {HINT}")
        if not isinstance(data, dict):
            return InputError(f"the kubeconfig {path} is a {type(data).__name__}, allowed: a mapping with clusters, "
                              f"users and contexts, as 'kubectl config view' shows one; {HINT}")
    names = ", ".join(map(str, files)) or "of this pod"
    return InputError(f"the kubeconfig {names} is broken: {type(error).__name__}: {error}; 'kubectl config view' tells "
                      f"more; {HINT}")
