"""Results: the records of a run, the folder they are kept in, and the tables they are shown as."""
