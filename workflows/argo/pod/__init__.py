"""What runs inside the pods: plan, run, finish. Each is a module with `add_arguments` and `run`."""

from workflows.argo.pod.message import note_memory

note_memory()  # before anything is imported that takes memory
