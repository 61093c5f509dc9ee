"""Planning and help stay quick: no step and no command imports a heavy package before it needs it."""

import importlib
import pkgutil
from pathlib import Path

import steps
from tests.processes import run_python

HEAVY = ("torch", "transformers", "trl", "mlflow", "lm_eval", "deepspeed", "datasets", "tokenizers", "numpy", "pandas",
         "pyarrow", "hera", "kubernetes", "rich")  # fmt: skip
STEPS = sorted(info.name for info in pkgutil.iter_modules(steps.__path__))


def heavy_after(program: str) -> set[str]:
    """Heavy packages that are imported when `program` has run."""
    check = f"{program}\nimport sys\nprint('HEAVY', *(name for name in {HEAVY!r} if name in sys.modules))"
    done = run_python("-c", check)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("HEAVY")[2].split())


def test_steps_are_light() -> None:
    assert heavy_after("\n".join(f"import steps.{step}" for step in STEPS)) == set()


def test_help_and_plan_are_light(tmp_path: Path) -> None:
    assert heavy_after("import workflows.cli; workflows.cli.parser()") == set()
    store = str(tmp_path / "runs")
    plan = f"import workflows.cli\nassert workflows.cli.main(['plan', '--preset', 'tiny', '--store', {store!r}]) == 0"
    assert heavy_after(plan) == set()


def test_every_step_says_what_it_is() -> None:
    for name in STEPS:
        definition = importlib.import_module(f"steps.{name}").STEP
        assert definition.name == name
        assert definition.config()  # every field has a default: what is upstream is filled in by the graph
        assert (importlib.import_module(f"steps.{name}").__doc__ or "").strip()
