"""Chapter 7: how the accesses of a kernel meet the memory system."""
