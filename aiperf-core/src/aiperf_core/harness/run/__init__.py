"""A run: what is asked for, the plan, the samples of a target, and the bundle that results."""
