"""Chapter 2: hardware: links, caches, tensor cores and SMs."""
