"""The local backend: runs a plan as processes on this machine."""
