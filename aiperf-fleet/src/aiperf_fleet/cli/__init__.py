"""The subcommands of `aiperf fleet`, one file each."""
