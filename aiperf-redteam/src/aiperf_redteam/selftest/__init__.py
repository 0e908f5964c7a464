"""The proof of the registry: each attack with its guard off and on, and each honest look-alike."""
