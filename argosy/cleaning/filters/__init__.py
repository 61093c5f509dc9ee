"""One filter a file; a module here that defines a `Filter` subclass is registered by being here."""
