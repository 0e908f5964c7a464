"""Results as data: figures, tables, pictures, and the list of metrics. Commands, pages and files render them."""
