"""What the processes of a run do: worker, judge, describer, prober, linter, and what they share."""
