"""Keeping untrusted code apart: the sandbox, the scratch folder, and what is watched from outside."""
