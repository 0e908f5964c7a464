"""Chapter 13: profiling, tuning and scaling PyTorch."""
