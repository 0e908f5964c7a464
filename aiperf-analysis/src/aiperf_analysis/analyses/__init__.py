"""The analyses: a file each, with a function `analyze(selection, options)`."""
