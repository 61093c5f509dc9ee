"""Other projects at the work of a benchmark, beside ours."""
