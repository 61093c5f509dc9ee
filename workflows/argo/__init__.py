"""The Argo backend: the same graph as Argo Workflows. Start with profile/, then manifests/ and pod/plan.py.

A WorkflowTemplate serves every config: its first pod plans as the laptop does and writes what each task is to run
into the store; the tasks' pods read it there. docs/argo.md tells how it fits together."""
