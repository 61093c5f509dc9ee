"""Clients of a cluster: an interface (api.py), and the two ways there, kubeconfig and an Argo server (ways.py)."""
