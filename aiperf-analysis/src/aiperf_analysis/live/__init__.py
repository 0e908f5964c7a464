"""A run that is going on: an observer that writes its state to a file, and the reader of such files."""
