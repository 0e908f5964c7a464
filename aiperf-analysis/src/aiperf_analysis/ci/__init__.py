"""Continuous benchmarking: a suite of targets is run on one machine after each commit, and gates stop regressions."""
