"""Commands for readers and authors of lessons."""
