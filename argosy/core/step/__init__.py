"""Steps: their contract, the process that runs one, its ranks, records and retries."""
