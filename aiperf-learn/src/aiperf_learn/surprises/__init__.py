"""Surprises: measurements that fool the usual tools, each beside what aiperf says of the same code, with the cause."""
