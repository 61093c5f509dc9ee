"""Where the data step's files come from: the demo's generators, or the user's own files."""
