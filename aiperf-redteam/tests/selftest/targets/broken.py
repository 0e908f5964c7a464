"""A module that cannot be imported."""

raise ImportError("a module with a bug")
