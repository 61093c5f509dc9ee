"""The store in an object store: pods mirror what they need of it, and push what they made."""

from workflows.argo.remote.pods import concluding, planning, running

__all__ = ["concluding", "planning", "running"]
