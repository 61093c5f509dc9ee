"""A store in an object store: pods mirror what they need of it, and push what they made."""
