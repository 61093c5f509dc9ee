"""Tracking: steps write to a spool on disk; a shipper sends the spool to MLflow (see docs/tracking.md)."""

from __future__ import annotations

from argosy.tracking.spool import Tracker

__all__ = ["Tracker"]
