"""A stranger's analysis of aiperf's results."""
