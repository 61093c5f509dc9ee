"""A cluster profile: where pods run, in which images, on which store, with which devices."""
