"""What runs inside the pods: plan, run, finish. Each is a module with `add_arguments` and `run`."""
