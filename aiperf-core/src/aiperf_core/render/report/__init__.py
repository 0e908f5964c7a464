"""A run as a page: HTML, Markdown or PDF. `content` has the texts and figures, the other files the formats."""
