"""Pages of targets: what they declare and teach, and the figures that are stored of them or that a bundle has."""
