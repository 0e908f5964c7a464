"""The checks that come with aiperf, one file a guard."""
