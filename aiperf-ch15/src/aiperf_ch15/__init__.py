"""Chapter 15: inference: parallelism, batching and routing."""
