"""Results for people: terminal tables, notes, pictures and report pages. Nothing here measures or judges."""
