"""The glossary: terms of results, methods and machines, in plain words."""
