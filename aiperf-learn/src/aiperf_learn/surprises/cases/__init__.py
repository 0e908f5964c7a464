"""The surprises, a file each: a target, `fooled`, the tool as people write it, and `cause`, the evidence."""
