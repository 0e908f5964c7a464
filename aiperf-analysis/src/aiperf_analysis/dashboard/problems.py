"""Errors of the API as problem documents (RFC 9457)."""

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from aiperf_core.results import jsontext

MEDIA = "application/problem+json"
SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "Why a request has no result, as RFC 9457 has it.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "about:blank: the status tells the kind of the problem."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was asked, what was found, and what to do next."},
    },
    "required": ["type", "title", "status", "detail"],
    "additionalProperties": False,
}


def document(status: int, title: str, detail: str) -> Response:
    """An answer with a problem."""
    body = {"type": "about:blank", "title": title or HTTPStatus(status).phrase, "status": status, "detail": detail}
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(jsontext.to_bytes(body), status, headers, MEDIA)
