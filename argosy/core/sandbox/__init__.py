"""A sandbox for Python that nobody has read: processes without privileges, network, files, children or our secrets."""
