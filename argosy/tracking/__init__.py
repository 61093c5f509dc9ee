"""Tracking: steps write to a spool on disk; a shipper sends the spool to MLflow (see docs/tracking.md)."""

from __future__ import annotations

from argosy.tracking.pipeline import PipelineTracker
from argosy.tracking.records import read
from argosy.tracking.spool import Tracker, checkpoint_key

__all__ = ["PipelineTracker", "Tracker", "checkpoint_key", "read"]
