"""Suites of benchmarks on many machines, by engines that others maintain."""
