"""The store: files written whole or not at all, records of steps, leases, digests."""
