"""Advice: the checklist, the rules of `aiperf explain`, the archive of `aiperf triage`, texts for language models."""
