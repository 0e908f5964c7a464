"""Functions that are measured and compared in the caller's own process: in a script, a REPL or a notebook."""
