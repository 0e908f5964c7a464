"""Chapter 6: CUDA programming: launches, occupancy and memory spaces."""
