"""Pure functions of results: intervals, verdicts, clock agreement, comparisons, rechecks. No process, no device."""
