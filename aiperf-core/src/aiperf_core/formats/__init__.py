"""The formats of candidates that the core reads; see `aiperf_core.candidate_format`."""
