"""Chapter 11: pipelines between kernels: streams, events and allocation."""
