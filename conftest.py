"""For the tests of all packages."""

import os

# pytest-xdist sets it to 80, and tables would be wrapped. Tests of widths set it themselves.
os.environ.pop("COLUMNS", None)
