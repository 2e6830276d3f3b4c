"""Replies of commands to --json, held to the JSON schema of the package."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema

from reusebench.commands import results
from tests.helpers.support import Ended

__all__ = ["SCHEMA_FILE", "reply_in", "result_of"]

SCHEMA_FILE = Path(results.__file__).with_name("schema.json")


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def reply_in(ended: Ended) -> dict[str, Any]:
    """Return the reply on standard output, which holds to the schema and has nothing beside it."""
    reply: dict[str, Any] = json.loads(ended.out)
    _validator().validate(reply)
    assert bool(reply["errors"]) <= (ended.exit_code != 0)
    return reply


def result_of(ended: Ended) -> Any:
    """Return the result of a command without a mistake."""
    reply = reply_in(ended)
    assert reply["errors"] == []
    assert reply["result"] is not None
    return reply["result"]
