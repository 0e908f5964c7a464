"""An analysis of a stranger that fails."""


def analyze(selection, options):
    """Fail."""
    return 1 / 0
