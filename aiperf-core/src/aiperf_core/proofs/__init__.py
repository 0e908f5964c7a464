"""The proof behind each guard: its kind, its outcome on this machine, and recorded evidence."""
