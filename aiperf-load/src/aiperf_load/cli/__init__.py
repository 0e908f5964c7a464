"""The command `aiperf load`; one file a subcommand."""
