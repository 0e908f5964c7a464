"""The target of `benchmarks/analysis_gate.py`."""
