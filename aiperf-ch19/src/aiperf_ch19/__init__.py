"""Chapter 19: engines that adapt to what they serve."""
