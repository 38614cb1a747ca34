"""Tests that vendors' errors become the right exceptions, and that none contains the key."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from agents.exceptions import (
    ContextOverflow,
    ProviderFault,
    ProviderRejected,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from agents.providers.failures import scrub
from agents.providers.registry import build_provider
from core.http import retry_after
from tests.agents.providers.talk import complete
from tests.agents.providers.vendors import VENDORS, Vendor
from tests.wire.answers import Answer, Refuse

both = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
SECRET = "a-workspace-key-nobody-may-see"


def fault_of(vendor: Vendor, reply: Refuse | Answer) -> ProviderFault:
    with vendor.wire([reply]) as wire:
        provider = vendor.provider(wire)
        with pytest.raises(ProviderFault) as caught:
            complete(provider, vendor.request("hi"))
    return caught.value


@both
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_overload_and_server_errors_can_be_retried(vendor: Vendor, status: int):
    assert type(fault_of(vendor, Refuse(status=status))) is ProviderUnavailable


@both
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_has_its_own_exception(vendor: Vendor, status: int):
    assert type(fault_of(vendor, Refuse(status=status))) is ProviderUnauthorized


@both
@pytest.mark.parametrize("status", [400, 402, 404, 409, 422])
def test_other_refusals_quote_the_vendor(vendor: Vendor, status: int):
    fault = fault_of(vendor, Refuse(status=status, message="no such thing here"))

    assert type(fault) is ProviderRejected
    assert f"answered {status}: no such thing here" in fault.detail


@both
@pytest.mark.parametrize(
    "message",
    [
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "the request exceeds the available context size. try increasing the context size",
    ],
)
def test_a_request_that_is_too_large_has_its_own_exception(vendor: Vendor, message: str):
    assert type(fault_of(vendor, Refuse(status=400, message=message))) is ContextOverflow


#: Messages of OpenAI-compatible servers.
OVERFLOWS = [
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (400, "Input is too long for requested model."),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
    (400, "Range of input length should be [1, 30720]"),
    (400, "Prompt exceeds max length"),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193"),
    (400, "Tokens in request more than max tokens allowed"),
    (500, "the request exceeds the available context size, try increasing it"),
    (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000."),
]


@pytest.mark.parametrize(("status", "message"), OVERFLOWS)
def test_an_overflow_is_recognised_in_the_messages_of_many_servers(status: int, message: str):
    assert type(fault_of(VENDORS[1], Refuse(status=status, message=message))) is ContextOverflow


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Rate limit reached: too many tokens per minute. Please try again in 6s."),
        (429, "You exceeded your current quota, input token count per day."),
        (503, "The model is overloaded. Please try again later."),
    ],
)
def test_a_rate_limit_is_not_an_overflow(status: int, message: str):
    assert type(fault_of(VENDORS[1], Refuse(status=status, message=message))) is ProviderUnavailable


def test_openais_code_identifies_an_overflow():
    reply = Refuse(status=400, message="Too big.", code="context_length_exceeded")

    assert type(fault_of(VENDORS[1], reply)) is ContextOverflow


def test_an_exhausted_quota_is_not_retried():
    reply = Refuse(status=429, message="You exceeded your quota.", code="insufficient_quota")

    assert type(fault_of(VENDORS[1], reply)) is ProviderRejected


@both
def test_retry_after_is_read_from_the_header(vendor: Vendor):
    fault = fault_of(vendor, Refuse(status=429, headers={"retry-after": "7"}))

    assert isinstance(fault, ProviderUnavailable)
    assert fault.retry_after == 7


def test_geminis_retry_delay_is_read_from_the_details():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27.5s"}
    fault = fault_of(VENDORS[0], Refuse(status=429, details=(info,)))

    assert isinstance(fault, ProviderUnavailable)
    assert fault.retry_after == 27.5


def test_retry_after_accepts_milliseconds_and_dates_and_ignores_nonsense():
    in_a_minute = format_datetime(datetime.now(tz=UTC) + timedelta(seconds=60), usegmt=True)

    assert retry_after({"retry-after-ms": "250"}) == 0.25
    assert 50 < (retry_after({"retry-after": in_a_minute}) or 0) <= 60
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "-3"}) is None
    assert retry_after({}) is None


@both
def test_an_html_error_page_means_unavailable(vendor: Vendor):
    fault = fault_of(vendor, Refuse(status=502, body="<html><h1>Bad gateway</h1></html>"))

    assert type(fault) is ProviderUnavailable


@both
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"code": 503, "type": "overloaded_error", "message": "", "status": "UNAVAILABLE"},
            ProviderUnavailable,
        ),
        (
            {"code": 400, "type": "invalid_request_error", "message": "bad", "status": "INVALID"},
            ProviderRejected,
        ),
    ],
)
def test_an_error_inside_the_stream_is_classified_like_any_other(vendor: Vendor, error, expected):
    assert type(fault_of(vendor, Answer(text=("well, ",), error=error))) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("server_error", ProviderUnavailable),
        ("rate_limit_exceeded", ProviderUnavailable),
        ("context_length_exceeded", ContextOverflow),
        (None, ProviderUnavailable),
    ],
)
def test_an_error_code_inside_openais_stream_is_classified(code, expected):
    error = {"code": code, "message": "it broke"}

    assert type(fault_of(VENDORS[1], Answer(text=("well, ",), error=error))) is expected


@both
def test_an_unreachable_server_is_unavailable(vendor: Vendor):
    with vendor.wire() as wire:
        address = wire.url
    provider = build_provider(vendor.name, api_key=SECRET, base_url=address, timeout=5)

    with pytest.raises(ProviderUnavailable):
        complete(provider, vendor.request("hi"))


@both
def test_a_redirect_is_not_followed_with_the_key(vendor: Vendor):
    with vendor.wire() as elsewhere:
        moved = Refuse(status=307, headers={"location": elsewhere.url})
        fault = fault_of(vendor, moved)

    assert type(fault) is ProviderRejected
    assert elsewhere.requests == []


@both
def test_a_wrong_key_is_unauthorized_and_never_quoted(vendor: Vendor):
    with vendor.wire() as wire:
        provider = vendor.provider(wire, key=SECRET)
        with pytest.raises(ProviderUnauthorized) as caught:
            complete(provider, vendor.request("hi"))

    printed = "".join(traceback.format_exception(caught.value))
    assert SECRET not in printed
    assert "[key]" in caught.value.detail


@both
@pytest.mark.parametrize("status", [400, 429, 500])
def test_no_error_quotes_the_key(vendor: Vendor, status: int):
    with vendor.wire() as wire:
        secret = wire.key
        wire.say(Refuse(status=status, message=f"Bearer {secret} and ?key={secret} are bad"))
        with pytest.raises(ProviderFault) as caught:
            complete(vendor.provider(wire), vendor.request("hi"))

    assert secret not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-ab***************xyz9.",
        "bad key AIzaSyA-1234567890abcdef",
        "https://example.com/v1?key=abc123&alt=sse failed",
        "header 'Authorization: Bearer abcdef123456'",
    ],
)
def test_keys_are_removed_even_when_half_masked_or_unknown(text: str):
    cleaned = scrub(text)

    assert "[key]" in cleaned
    assert not any(part in cleaned for part in ("xyz9", "AIza", "abc123", "abcdef"))


def test_ordinary_text_is_unchanged():
    text = "The skyscraper-sized request needs a Bearer token; see task-management docs."

    assert scrub(text) == text
