"""Roles of a run's processes: worker, judge, describer, prober, linter, and their common parts."""
