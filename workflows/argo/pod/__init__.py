"""The commands of pods, such as plan, run and finish; __main__.py lists them with their options."""

from workflows.argo.attempts import note_memory

note_memory()  # before anything is imported that takes memory
