"""Pictures of results. Drawing needs matplotlib, from the extra `aiperf-core[plots]`."""
