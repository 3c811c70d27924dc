"""Is this fleet set up so that corruption can be seen, retried and explained? Facts in, findings out."""
