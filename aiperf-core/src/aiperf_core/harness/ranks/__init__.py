"""Targets of several processes: ranks on this machine and on others."""
