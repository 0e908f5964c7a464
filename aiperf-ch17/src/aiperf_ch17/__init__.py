"""Chapter 17: scaling disaggregated prefill and decode."""
