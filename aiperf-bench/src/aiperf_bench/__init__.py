"""Nothing of its own: the distribution installs aiperf, and its extras the other packages."""
