"""A benchmark that cannot be imported."""

raise ValueError("no benchmark today")
