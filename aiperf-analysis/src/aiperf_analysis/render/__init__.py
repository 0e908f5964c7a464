"""A `Result` as text, JSON, CSV, SVG and HTML."""
