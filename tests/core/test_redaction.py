"""Tests that no secret reaches a log, whatever its name or shape."""

from __future__ import annotations

import json
import logging
import sys
import time
import timeit
from io import StringIO

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from core.logging import (
    REMOVED,
    SECRET_SHAPES,
    StderrHandler,
    redact,
    redact_text,
    shared_chain,
    without_secrets,
)

SECRETS = [
    "sy_Zm9vYmFyYmF6cXV4Zm9vYmFy",
    "AIzaSyA-1234567890abcdefghijklmnop",
    "sk-proj-abcdefghijklmnopqrstuvwx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "ghp_0123456789abcdefghij",
]
NAMES = [
    "Authorization",
    "x-api-key",
    "password",
    "new_password",
    "token",
    "access_token",
    "client_secret",
    "Cookie",
    "Set-Cookie",
    "api_key",
    "gemini_api_key",
    "SECRET_KEY",
    "credentials",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "text",
    ["{}", "key {} failed", "https://h/v1?x=1&key={}", "Bearer {}", "['{}']", "key.{}", "sent-{}"],
)
def test_a_secret_is_recognised_by_its_shape(secret, text):
    assert secret not in redact_text(text.format(secret))
    assert REMOVED in redact_text(text.format(secret))


PARTS = [
    *(
        "Bearer ",
        "basic ",
        "TOKEN ",
        "token=",
        "key: ",
        "api-key=",
        "X-API-Key: ",
        "apikey:",
        "key.",
    ),
    *(
        "access_token=",
        "Refresh-Token: ",
        "client_secret=",
        "passwd=",
        "Password: ",
        "--token ",
        "a",
    ),
    *(
        "sessionid=",
        "csrftoken=",
        "csrfmiddlewaretoken: ",
        "signature=",
        "Cookie: ",
        "-secret=",
        "_",
    ),
    *(
        "sk-",
        "PK_",
        "rk_",
        "ghp_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "AKIA",
        "ya29.",
        "whsec_",
        "/",
    ),
    *("https://", "user:", "@host", "-----BEGIN RSA PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
    *("x1" * 20, "abc12345", "\u017fecret=", "\u212aey=", "'", '"', " ", "\n", *SECRETS),
]


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_no_text_that_a_shape_matches_is_passed_over(text):
    thorough = text
    for shape in SECRET_SHAPES:
        thorough = shape.sub(rf"\g<1>{REMOVED}", thorough)

    assert redact_text(text) == thorough


@pytest.mark.parametrize(
    "word", ["a.", "a-", "--a", "eyJ-", "eyJaaaaaa-", "token ", "key: ", "/a1", "a://", "x@"]
)
def test_redaction_takes_linear_time_for_hostile_text(word):
    def seconds(size: int) -> float:
        text = word * (size // len(word))
        return min(
            timeit.repeat(lambda: redact_text(text), number=1, repeat=5, timer=time.process_time)
        )

    # Eight times the text takes about eight times as long; quadratic time would take 64 times.
    assert seconds(32_000) < 30 * seconds(4_000)


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_is_recognised_by_its_name_at_any_depth(name):
    event = {"a": [{"b": ({name: "plain words"},)}]}

    assert "plain words" not in json.dumps(redact(event))


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2x",
        "{'password': 'hunter2x', 'a': 1}",
        '{"client_secret": "hunter2x"}',
        "Authorization: hunter2x",
        "login --password=hunter2x",
        "deploy --api-key hunter2x --force",
        "-db-token hunter2x",
        "postgresql://me:hunter2x@host/db",
        "GET /sign-in/hunter2xAbCdEfGhIjKlMnOpQrStUvWxYz0123456789/ done",
        "-----BEGIN PRIVATE KEY-----\nhunter2x\n-----END PRIVATE KEY-----",
    ],
)
def test_a_secret_inside_a_text_is_removed(text):
    assert "hunter2x" not in redact_text(text)


@pytest.mark.parametrize(
    "value",
    [
        {"input_tokens": 12, "max_tokens": 900, "session_key": "thread-7"},
        {"path": "/api/v1/keys/0198c9a0-1111-7222-8333-0123456789ab/"},
        "the monkey: banana",
        "DETAIL: Key (email)=(a@b.c) already exists",
        "task-skills and risk-free words",
    ],
)
def test_harmless_values_are_kept(value):
    assert redact(value) == value


def test_the_representation_of_an_object_is_redacted():
    class Client:
        def __repr__(self) -> str:
            return f"Client({SECRETS[0]})"

    assert SECRETS[0] not in str(redact({"client": Client()}))


def test_circular_values_are_cut():
    loop: list[object] = []
    loop.append(loop)

    assert REMOVED in str(redact(loop))


@given(
    st.recursive(
        st.sampled_from(SECRETS) | st.text() | st.integers() | st.none() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_a_key_is_found_at_any_depth(value):
    written = json.dumps(redact(value), default=str)

    assert not any(secret in written for secret in SECRETS)


def line_of(write) -> dict:
    """Return the JSON line that a call writes to standard error."""
    handler, stream = StderrHandler(), StringIO()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared_chain(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    logger = logging.getLogger("tests.redaction")
    logger.handlers, logger.propagate = [handler], False
    before, sys.stderr = sys.stderr, stream
    try:
        write()
    finally:
        sys.stderr = before
        logger.handlers, logger.propagate = [], True
    return json.loads(stream.getvalue())


def test_log_lines_of_libraries_are_redacted_too():
    def write() -> None:
        try:
            raise ValueError(f"refused {SECRETS[1]}")
        except ValueError:
            logging.getLogger("tests.redaction").exception("calling with %s", SECRETS[0])

    line = line_of(write)

    assert not any(secret in json.dumps(line) for secret in SECRETS)
    assert line["event"] == f"calling with {REMOVED}"
    assert "ValueError: refused" in line["exception"]


def test_log_lines_have_level_time_logger_and_bound_values():
    def write() -> None:
        with structlog.contextvars.bound_contextvars(request_id="r-1"):
            structlog.get_logger("tests.redaction").warning(
                "call_failed", headers={"authorization": "Bearer abc"}, tries=2
            )

    line = line_of(write)

    assert line.pop("timestamp")
    assert line == {
        "event": "call_failed",
        "level": "warning",
        "logger": "tests.redaction",
        "request_id": "r-1",
        "headers": {"authorization": REMOVED},
        "tries": 2,
    }


def test_redaction_is_the_last_processor():
    assert shared_chain()[-1] is without_secrets
