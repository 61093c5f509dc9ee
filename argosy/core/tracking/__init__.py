"""Tracking: steps write to a spool on disk; a shipper sends the spools to MLflow (see docs/tracking.md)."""
