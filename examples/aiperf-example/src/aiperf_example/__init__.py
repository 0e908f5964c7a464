"""A stranger's benchmarks for aiperf."""
