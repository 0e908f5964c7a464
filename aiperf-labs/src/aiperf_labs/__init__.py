"""Labs: ladders of techniques over one workload."""
