"""`python -m aiperf_core` is `aiperf`."""

from aiperf_core.cli.main import main

if __name__ == "__main__":
    main()
