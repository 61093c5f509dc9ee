"""The local backend: runs a plan as processes on this machine."""

from __future__ import annotations

from workflows.local.budget import Budget
from workflows.local.observer import NodeResult, RunObserver, RunResult
from workflows.local.runner import run_plan

__all__ = ["Budget", "NodeResult", "RunObserver", "RunResult", "run_plan"]
