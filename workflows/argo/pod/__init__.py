"""The commands of pods: plan, run, finish. Each is a module with `add_arguments` and `run`."""

from workflows.argo.attempts import note_memory

note_memory()  # before anything is imported that takes memory
