"""Files of lighteval (`results_<time>.json`): `results` by `task|few-shot examples`, with the details of each item in
Parquet. A form of ours is a subtask of theirs (`task:form|0`); `plain` is none."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import pq
from argosy.core.store.files import json_text, make_directory, write_atomic
from argosy.evidence.results.findings import Findings
from evals.answers import OTHER_ANSWER
from evals.exchange import OURS, PLAIN, Exported, Value, add, kind_of, number
from evals.records import language_of

NAME = "lighteval"
FORM = "lighteval"
_ALL = "all"  # their mean over all tasks
_ERROR = "_stderr"
_RIGHT = ("acc", "loglikelihood_acc", "em", "qem", "exact_match", "extractive_match")  # 1: the answer is right


def write(found: Exported, out: Path) -> list[Path]:
    """Write the results; returns the file. `all` has the mean of each metric over tasks, as theirs has."""
    results: dict[str, dict[str, float]] = {}
    metrics: dict[str, dict[str, bool]] = {}
    for value in found.values():
        task = f"{value.task}|0" if value.form == PLAIN else f"{value.task}:{value.form}|0"
        own = results.setdefault(task, {})
        own[value.metric] = value.value
        if math.isfinite(value.stderr):
            own[f"{value.metric}{_ERROR}"] = value.stderr
        if value.kind.sign:
            metrics.setdefault(task, {})[value.metric] = value.kind.sign > 0
    names = sorted({name for own in results.values() for name in own})
    each = {name: [own[name] for own in results.values() if name in own] for name in names}
    time = found.time
    record = {
        "config_general": {"lighteval_sha": "?", "num_fewshot_seeds": 1, "max_samples": None, "job_id": OURS,
                           "start_time": time.timestamp(), "end_time": time.timestamp(),
                           "total_evaluation_time_secondes": "0", "model_config": {"model_name": found.name},
                           "model_name": found.name},
        "results": {**results, _ALL: {name: math.fsum(some) / len(some) for name, some in each.items()}},
        "versions": dict.fromkeys(results, 1),
        "config_tasks": {task: {"name": task.partition("|")[0], "num_fewshots": 0, "version": 1,
                                "metrics": [{"metric_name": name, "higher_is_better": higher}
                                            for name, higher in own.items()]} for task, own in metrics.items()},
        "summary_tasks": {task: {"hashes": {}, "truncated": 0, "non_truncated": 0, "padded": 0, "non_padded": 0}
                          for task in results},
        "summary_general": {"hashes": {}, "truncated": 0, "non_truncated": 0, "padded": 0, "non_padded": 0}}
    path = make_directory(out / "results" / found.name) / f"results_{time:%Y-%m-%dT%H-%M-%S.%f}.json"
    write_atomic(path, json_text(record, indent=2))
    return [path]


def read(path: Path, content: Mapping[str, Any], form: str, names: Mapping[str, str], into: Findings) -> str:
    """Read results into findings, and the details that `--save-details` has left; returns the model's name. Raises
    InputError: a metric is there already, or a file of details is none."""
    about = content["config_general"]
    ours = about.get("job_id") == OURS
    for key, values in content["results"].items():
        if key == _ALL:
            continue
        task, own_form = _place(key, ours, form or FORM)
        declared = _directions(content.get("config_tasks", {}), key)
        for metric, value in values.items():
            if not metric.endswith(_ERROR) and not math.isnan(number(value)):
                add(into, Value(names.get(task, task), own_form, metric, number(value),
                                number(values.get(metric + _ERROR)), 0, kind_of(metric, declared.get(metric))), path)
        for file in _details(path, key):
            into.rows += _rows(file, names.get(task, task), own_form)
    config = about.get("model_config") or {}
    return str(about.get("model_name") or config.get("model_name") or path.parent.name)


def _details(path: Path, key: str) -> list[Path]:
    """Find the details of a task: `details/<model>/<time>/details_<task>_<time>.parquet` for
    `results/<model>/results_<time>.json`, or beside it."""
    time, parts = path.stem.removeprefix("results_"), list(path.parent.parts)
    if "results" in parts:
        parts[len(parts) - 1 - parts[::-1].index("results")] = "details"
    name = f"details_{key}_{time}.parquet"
    return [file for file in (Path(*parts) / time / name, path.parent / name) if file.is_file()][:1]


def _rows(file: Path, task: str, form: str) -> Iterator[dict[str, Any]]:
    """Yield rows as an evaluation has them, of the columns doc, model_response and metric."""
    try:
        records = pq.read_table(file).select(["doc", "model_response", "metric"]).to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} is no file of lighteval's details, with the columns doc, model_response and metric "
                         f"({error}): remove it to import the numbers alone") from None
    for number_, record in enumerate(records):
        try:
            yield _row(record, number_, task, form)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(f"{file}, row {number_}: its doc, model_response or metric is not as lighteval writes it "
                             f"({error}): remove the file to import the numbers alone") from None


def _row(record: Mapping[str, Any], number_: int, task: str, form: str) -> dict[str, Any]:
    doc, said = record["doc"] or {}, record["model_response"] or {}
    values = {name: float(value) for name, value in (record["metric"] or {}).items()
              if isinstance(value, bool | int | float)}
    name = f"{task}/{doc.get('id') or number_}"
    return {"task": task, "variant": form, "id": name, "item": name, "lang": language_of(str(doc.get("query") or "")),
            **values, **_answer(doc, said, values)}


def _answer(doc: Mapping[str, Any], said: Mapping[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """Describe the answer; `correct` where their metric says that it is right or wrong."""
    options, given = doc.get("choices") or [], doc.get("gold_index")
    golds = [int(each) for each in (given if isinstance(given, list) else [given]) if each is not None]
    scores = [float(score) for score in said.get("logprobs") or () if score is not None]
    scored = len(scores) == len(options) > 1 and all(map(math.isfinite, scores))
    found: dict[str, Any] = {"scores": [round(score, 5) for score in scores] if scored else []}
    right = next((values[name] for name in _RIGHT if values.get(name) in (0.0, 1.0)), None)
    if scored:
        found["chosen"] = scores.index(max(scores))
    else:
        found["text"] = str((said.get("text") or [""])[0])
    if right is not None and golds:
        found |= {"correct": right == 1, "gold": golds[0] if scored else 0}
        found.setdefault("chosen", 0 if right else OTHER_ANSWER)
    return found


def _place(key: str, ours: bool, form: str) -> tuple[str, str]:
    """Read task and form of `task|shots`, or of `suite|task|shots` and `suite|task|shots|0` of their older versions."""
    parts = key.split("|")
    shots = [part for part in parts[1:] if part.isdigit()]
    name = parts[1] if len(parts) > 2 and not parts[1].isdigit() else parts[0]
    task, _, subtask = name.partition(":")
    if ours:
        return task, subtask or PLAIN
    few = f"-{shots[0]}shot" if shots and shots[0] != "0" else ""
    return name.replace(":_average", "").replace(":", "_"), form + few


def _directions(configs: Mapping[str, Any], key: str) -> dict[str, bool]:
    """Read which metrics are better when higher, from the config of a task."""
    config = configs.get(key) or configs.get(key.rpartition("|")[0]) or {}
    some = config.get("metrics") or config.get("metric") or ()
    return {each["metric_name"]: bool(each["higher_is_better"]) for each in some
            if isinstance(each, Mapping) and isinstance(each.get("metric_name"), str)
            and isinstance(each.get("higher_is_better"), bool)}
