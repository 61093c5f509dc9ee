"""Put the report and the comparison table where Argo's executor takes them as artifacts, for the UI."""

from __future__ import annotations

import argparse
import html
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argosy.storage import make_directory, read_json, read_record, write_json
from workflows.argo.handoff import FOLDER, read_handoff
from workflows.argo.outputs import OUTPUTS
from workflows.argo.profile_load import load_profile
from workflows.argo.remote.night import reporting

FILE = "report.json"  # beside plan.json: the directory of a night's report
_STYLE = "body{font:14px sans-serif}td,th{padding:2px 10px;text-align:right}:first-child{text-align:left}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in."""
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--outputs", type=Path, default=Path(OUTPUTS))


def run(arguments: argparse.Namespace) -> int:
    """0, also where there is no report."""
    profile = load_profile(arguments.profile)
    folder = Path(profile.storage.root) / FOLDER / arguments.workflow
    with reporting(profile, arguments.workflow):
        report = report_of(folder)
        if report is not None:
            arguments.outputs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(report / "report.html", arguments.outputs / "report.html")
            if (comparison := report / "comparison.json").is_file():
                (arguments.outputs / "comparison.html").write_text(table(read_json(comparison)), encoding="utf-8")
    print(f"report: {report}" if report else "there is no report")
    return 0


def note_report(folder: Path, report: Path) -> None:
    """Say that `report` is the directory of what the workflow of `folder` reports."""
    write_json(make_directory(folder) / FILE, {"report": str(report)})


def report_of(folder: Path) -> Path | None:
    """The directory of a workflow's report: a night's, else its comparison's; None before there is one."""
    found = read_record(folder / FILE).get("report")
    if not found and (plan := folder / "plan.json").is_file():
        found = read_handoff(plan).report
    return Path(found) if found and (Path(found) / "report.html").is_file() else None


def table(comparison: Mapping[str, Any]) -> str:
    """The measures of the last checkpoint of each stage as a page: a row for each, a column for each checkpoint."""
    last = {name: each for name, each in comparison["checkpoints"].items() if each.get("final")}
    names = list(dict.fromkeys(name for each in last.values() for name in each["metrics"]))
    rows = "".join(f"<tr><td>{html.escape(name)}</td>{''.join(_cells(name, last))}</tr>\n" for name in sorted(names))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in last)
    title = "Checkpoints, with 95 % intervals"
    return (f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
            f"<h3>{title}</h3><table><tr><th></th>{head}</tr>\n{rows}</table>\n")  # fmt: skip


def _cells(name: str, checkpoints: Mapping[str, Any]) -> Iterator[str]:
    for each in checkpoints.values():
        found = each["metrics"].get(name)
        if found is None:
            yield "<td></td>"
            continue
        low, high = found.get("low"), found.get("high")
        interval = "" if low is None or high is None else f" <small>{low:.3f} to {high:.3f}</small>"
        yield f"<td>{found['value']:.3f}{interval}</td>"
