"""The store: figures of many bundles in a database."""
