"""The command `aiperf`: one file a subcommand. Nothing outside this folder prints."""
