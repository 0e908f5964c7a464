"""Chapter 8: occupancy, warp efficiency and instruction-level parallelism."""
