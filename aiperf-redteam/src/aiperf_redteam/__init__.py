"""Code that commits the issues of the registry, and honest code that looks like it."""
