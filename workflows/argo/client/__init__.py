"""The client of a cluster's workflows (api.py), what it submits, and what it shows of them."""
