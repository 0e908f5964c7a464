"""A run as a page to read and to send: HTML, Markdown or PDF. `content` says what stands in it, the others how it looks."""
