"""Cluster tests run against any kubeconfig that has Argo and a profile whose store this machine sees too.

They have a namespace and a directory of the store of their own, which are taken away in the end; what is installed
stays as it is. docs/install.md says what ARGOSY_TEST_PROFILE is."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.namespace import own_namespace
from workflows.argo.profile.profile import Profile, load_profile


@pytest.fixture(scope="session")
def profile() -> Profile:
    """The profile under test, with a namespace and a store of its own."""
    name = os.environ.get("ARGOSY_TEST_PROFILE", "")
    if not name:
        pytest.skip("no cluster: ARGOSY_TEST_PROFILE names no cluster profile")
    given = load_profile(name)
    storage = given.storage.model_copy(update={"directory": "cluster-tests"})
    return given.model_copy(update={"storage": storage, "namespace": f"{given.namespace}-tests"})


@pytest.fixture(scope="session")
def cluster(profile: Profile) -> Iterator[Cluster]:
    """The cluster of the kubeconfig, with this version's manifests in a namespace of the tests."""
    found = Cluster(profile)
    if reason := found.missing():
        pytest.skip(f"no cluster: {reason}")
    with own_namespace(profile.namespace, like=profile.namespace.removesuffix("-tests")):
        found.install()
        yield found
    if profile.storage.host_path:
        shutil.rmtree(profile.storage.node_directory, ignore_errors=True)


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the tiny preset ran on this machine."""
    from tests.end_to_end.crash import run

    path = tmp_path_factory.mktemp("laptop") / "store"
    run(path, popen=subprocess.Popen)  # a warm process has libraries imported in another order, which tokenizers note
    return path


@pytest.fixture
def store(profile: Profile) -> Path:
    """The cluster's store as this machine sees it, emptied."""
    if not profile.storage.host_path:
        pytest.skip("the profile's store is a claim, which this machine does not see")
    root = Path(profile.storage.node_directory)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    root.chmod(0o777)  # pods are another user
    return root
