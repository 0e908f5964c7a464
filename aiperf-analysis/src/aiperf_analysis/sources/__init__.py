"""Folders of bundles and stores as one interface, for the dashboard and the TUI."""
