"""Order, budget and batches, without processes; the last words of a run about metrics that MLflow does not take."""

import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.step.machine import amd_gpus, usable_gpus
from argosy.model.post.config import SFTConfig
from steps.evaluate import EvaluateConfig
from steps.noop import NoopConfig
from steps.pretrain import PretrainConfig
from steps.tokenize import TokenizeConfig
from tests.trees import write_files
from workflows.graph import Node, Resources
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget, Scheduler, Share
from workflows.local.shipping import Sender
from workflows.plan import plan
from workflows.stages import StageResources, Stages


def node(name: str, *after: Node, cores: int = 1, part: str = "", batch: int = 1, memory_gb: float = 0.1) -> Node:
    inputs = {"after": after} if after else {}
    return Node(name, "noop", NoopConfig(), inputs=inputs, part=part, batch=batch,
                resources=Resources(cores, memory_gb))


def scheduler(nodes: list[Node], store: Path, cores: int = 2, memory_gb: float = 8) -> Scheduler:
    return Scheduler(plan(nodes, store), Budget(cores, memory_gb))


def started(s: Scheduler) -> list[str]:
    found = []
    while began := s.start():
        found.append(" ".join(n.id for n in began[0]))
    return found


def test_critical_path_first_and_no_more_than_fits(tmp_path: Path) -> None:
    a = node("a")
    chain = node("chain")
    nodes = [a, node("b"), chain, node("end", chain)]
    s = scheduler(nodes, tmp_path)
    assert started(s) == ["chain", "a"]
    s.ended(Share(1, 0.1))
    assert started(s) == ["b"]


def test_an_early_node_starts_with_its_export_and_no_failure_of_the_stage_blocks_it(tmp_path: Path) -> None:
    train = Node("pretrain", "pretrain", PretrainConfig(exports=(0.5, 1.0)), inputs={"tokenized": node("tokens")})
    early, late = (Node("evaluate", "evaluate", EvaluateConfig(export=export), part=export, early=export == "p050",
                        inputs={"checkpoint": train}) for export in ("p050", "final"))
    nodes = [*train.upstream["tokenized"], train, early, late]
    planned = plan(nodes, tmp_path)
    s = Scheduler(planned, Budget(8, 8))
    tokens, training = planned.nodes[:2]
    assert started(s) == ["tokens"]
    s.succeeded(tokens)
    assert started(s) == ["pretrain"]
    assert not s.release()
    Path(training.dir, "checkpoints/p050").mkdir(parents=True)
    assert s.release()
    assert started(s) == ["evaluate/p050"]
    assert not s.release()
    assert [each.id for each in s.failed(training)] == ["evaluate/final"]


def test_a_node_for_the_whole_machine_is_not_starved_by_small_ones(tmp_path: Path) -> None:
    big = node("big", cores=2)
    first = node("first")
    nodes = [first, node("after_first", first), node("second", first), big, node("x", big), node("y", big)]
    s = scheduler(nodes, tmp_path)
    begun = s.start()
    assert begun
    assert [n.id for n in begun[0]] == ["first"]
    assert started(s) == []  # big is next and waits for both cores
    s.succeeded(begun[0][0])
    s.ended(begun[1])
    assert started(s) == ["big"]


@pytest.mark.parametrize(("cores", "memory_gb", "other_gb"), [(64, 999, 0.1), (1, 5, 5)])
def test_memory_counts_and_what_asks_for_more_than_the_machine_has_runs_alone(cores: int, memory_gb: float,
                                                                             other_gb: float, tmp_path: Path) -> None:
    s = scheduler([node("a", cores=cores, memory_gb=memory_gb), node("b", memory_gb=other_gb)], tmp_path, memory_gb=8)
    assert started(s) == ["a"]


def test_parts_are_batched_and_shared_among_free_cores(tmp_path: Path) -> None:
    parts = [node("p", part=str(i), batch=3) for i in range(4)]
    assert started(scheduler(parts, tmp_path)) == ["p/0 p/1", "p/2 p/3"]
    assert started(scheduler(parts, tmp_path, cores=1)) == ["p/0 p/1 p/2"]


def test_tokenizing_has_all_cores_where_nothing_is_said(tmp_path: Path) -> None:
    def shared(cores: int) -> int:
        [planned] = plan([Node("t", "tokenize", TokenizeConfig(), resources=Resources(cores))], tmp_path).nodes
        return Budget(8, 8).take(planned).cores

    assert [shared(cores) for cores in (1, 3)] == [8, 3]


def test_gpus_are_given_one_by_one_and_come_back(tmp_path: Path) -> None:
    """A step that trains takes one GPU unless it says otherwise; one that does not use torch is left alone."""
    trains = [Node(f"t{i}", "pretrain", PretrainConfig(seed=i), resources=Resources(1, 0.1)) for i in range(2)]
    asks = [Node("two", "noop", NoopConfig(), resources=Resources(1, 0.1, gpus=2)),
            Node("none", "noop", NoopConfig(), resources=Resources(1, 0.1, gpus=0))]
    last = Node("last", "pretrain", PretrainConfig(seed=2), resources=Resources(1, 0.1))
    s = Scheduler(plan([*trains, node("free"), *asks, last], tmp_path), Budget(8, 8, gpus=("4", "GPU-b")))
    begun = [began for _ in range(4) if (began := s.start())]
    assert [(nodes[0].id, share.gpus) for nodes, share in begun] == [
        ("t0", ("4",)), ("t1", ("GPU-b",)), ("free", None), ("none", ())]  # `two` waits, and holds back no one without
    s.ended(begun[1][1])
    assert s.start() is None  # one is free, and `last` comes after `two`
    s.ended(begun[0][1])
    nodes, share = s.start() or ([], None)
    assert [nodes[0].id, share and share.gpus] == ["two", ("4", "GPU-b")]


def test_more_gpus_than_there_are_is_refused_by_name(tmp_path: Path) -> None:
    asks = plan([Node("big", "noop", NoopConfig(), resources=Resources(1, 0.1, gpus=8))], tmp_path)
    with pytest.raises(InputError, match=r"resources\.big\.gpus is 8, and for big this machine has 1 .* lower it"):
        run_plan(asks, budget=Budget(2, 4, gpus=("0",)))
    four = PretrainConfig(processes=4)
    many = plan([Node("t", "pretrain", four, resources=Resources(1, 0.1, 4))], tmp_path)
    with pytest.raises(InputError, match=r"t\.processes is 4, each needs .* are 2 .* resources\.t\.gpus=0"):
        run_plan(many, budget=Budget(2, 4, gpus=("0", "1")))


@pytest.mark.parametrize(("visible", "gpus"), [("0,1", ("0", "1")), ("", ()), ("-1", ()), ("GPU-x, 3", ("GPU-x", "3"))])
def test_the_gpus_of_a_machine_are_those_of_its_environment(visible: str, gpus: tuple[str, ...],
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert usable_gpus() == gpus


def test_amd_s_gpus_are_those_of_the_machine_s_topology_whose_files_are_here(tmp_path: Path) -> None:
    for node, minor in enumerate([0, 128, 129, 130]):  # a CPU and three GPUs, two of them in this container
        properties = (f"cpu_cores_count {0 if minor else 64}\nsimd_count {4 if minor else 0}\n"
                      f"drm_render_minor {minor}\n")
        write_files(tmp_path, {f"sys/class/kfd/kfd/topology/nodes/{node}/properties": properties})
    write_files(tmp_path / "dev", dict.fromkeys(("kfd", "dri/renderD128", "dri/renderD130", "dri/card0"), ""))
    assert amd_gpus(tmp_path) == 2
    assert amd_gpus(tmp_path / "no") == 0


def stage(config: Config, **resources: object) -> Node:
    """The node that the stage `s` becomes."""
    return Stages(1, {"s": StageResources.model_validate(resources)}, ("s",))("s", "noop", config)


def test_a_stage_has_a_process_for_each_gpu_and_cores_for_all_of_them() -> None:
    node = stage(NoopConfig(), gpus=4)
    assert (node.config, node.resources) == (NoopConfig(processes=4), Resources(4, 4.0, 4, 4))
    assert stage(NoopConfig(processes=2), gpus=0).resources == Resources(2, 2.0, 2, 0)
    with pytest.raises(InputError, match=r"s\.processes is 2 and resources\.s\.gpus is 4, allowed: 4"):
        stage(NoopConfig(processes=2), gpus=4)
    two = stage(NoopConfig(), gpus=4, nodes=2)
    assert (two.config, two.resources.gpus, two.resources.nodes) == (NoopConfig(processes=8, nodes=2), 4, 2)
    assert two.config.identity() == NoopConfig(processes=8).identity()
    assert stage(NoopConfig(), nodes=2).config == NoopConfig(processes=2, nodes=2)
    with pytest.raises(InputError, match="nodes=3 does not divide processes=4"):
        stage(NoopConfig(processes=4), nodes=3)


def test_all_cores_are_threads_that_the_digest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.stages.usable_cores", lambda: 6)
    alone, shared = stage(SFTConfig(), cores="all"), stage(SFTConfig(processes=2), cores="all")
    assert [(each.config.identity()["threads"], each.resources.cores) for each in (alone, shared)] == [(6, 6), (3, 6)]
    assert stage(SFTConfig(threads=2), cores="all").config == SFTConfig(threads=2, seed=1)
    assert stage(SFTConfig(), cores=4).config == stage(SFTConfig()).config




def test_a_short_pod_leaves_its_metrics_to_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(subprocess, "Popen", Mock(side_effect=AssertionError))
    sender = Sender(tmp_path, after_s=60.0)
    sender.on_tick()
    sender.close()
    assert "this pod was short" in capsys.readouterr().out


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "mlruns"])
def test_a_folder_is_no_tracking_server(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(InputError, match=f"MLFLOW_TRACKING_URI is '{uri}', a folder, .*sqlite:"):
        Sender(tmp_path)
