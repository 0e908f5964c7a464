"""The target of `benchmarks/demo_results.py`."""
