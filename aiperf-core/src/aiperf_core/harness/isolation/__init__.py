"""Isolation of untrusted code: the sandbox, the scratch folder, and the observation of processes from outside."""
