"""Cluster tests run against any kubeconfig that has Argo and a profile whose store this machine sees too.

ARGOSY_TEST_PROFILE names the profile (a file); its manifests are applied before the tests. See docs/argo.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from workflows.argo.profile.profile import Profile, load_profile


@pytest.fixture(scope="session")
def profile() -> Profile:
    """The profile under test, with a store of its own."""
    name = os.environ.get("ARGOSY_TEST_PROFILE", "")
    if not name:
        pytest.skip("no cluster: ARGOSY_TEST_PROFILE names no cluster profile")
    given = load_profile(name)
    storage = given.storage.model_copy(update={"directory": "cluster-tests"})
    return given.model_copy(update={"storage": storage})


@pytest.fixture(scope="session")
def cluster(profile: Profile) -> Cluster:
    """The cluster of the kubeconfig, with this version's manifests."""
    found = Cluster(profile)
    reason = found.missing()
    if reason:
        pytest.skip(f"no cluster: {reason}")
    found.install()
    return found


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the tiny preset ran on this machine."""
    from tests.end_to_end.crash import run

    path = tmp_path_factory.mktemp("laptop") / "store"
    run(path)
    return path


@pytest.fixture
def store(profile: Profile) -> Path:
    """The cluster's store as this machine sees it, emptied."""
    import shutil

    if not profile.storage.host_path:
        pytest.skip("the profile's store is a claim, which this machine does not see")
    root = Path(profile.storage.host_path) / profile.storage.directory
    shutil.rmtree(root, ignore_errors=True)
    return root
