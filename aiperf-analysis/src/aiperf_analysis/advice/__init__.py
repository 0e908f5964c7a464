"""Advice: the checklist, the rules of `aiperf explain`, the archive of `aiperf triage`, and texts for language models."""
