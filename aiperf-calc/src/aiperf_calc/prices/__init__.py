"""Prices that a user keeps in a TOML file. The package has none of its own but an example without date and source."""
