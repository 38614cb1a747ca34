"""Tests that a rule applies to a file, page or person, however it is spelled."""

from __future__ import annotations

from typing import Any

import pytest

from tools_app.policy.evaluation import decide
from tools_app.policy.rules import Layer
from tools_app.registry import AnyArguments, Category, SchemaTool


def verdict(tool: str, subject: dict[str, str], **rules: Any) -> str:
    return decide(tool, [Layer(name="agent", profile="full", **rules)], subject).decision


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "./.git/config",
        ".git//config",
        ".git/./config",
        "/workspace/.git/config",
        "/workspace//./.git/config",
    ],
)
@pytest.mark.parametrize("pattern", [".git/*", "./.git/*", "/workspace/.git/*", "*.git/*", "/*"])
def test_a_denied_file_cannot_be_reached_by_another_spelling(path, pattern):
    assert verdict("write", {"path": path}, denied=(f"write({pattern})",)) == "deny"
    assert verdict("write", {"path": path}, asked=(f"write({pattern})",)) == "ask"


@pytest.mark.parametrize("path", ["docs/a.md", "./docs/a.md", "/workspace/docs/sub/a.md"])
def test_an_allowed_folder_matches_every_spelling(path):
    assert verdict("write", {"path": path}, allowed=("write(docs/*)",)) == "allow"
    assert verdict("write", {"path": path}, allowed=("write(/workspace/docs/*)",)) == "allow"


@pytest.mark.parametrize("path", ["a.md", "/docs/a.md", "/runtime/docs/a.md", "x/docs/a.md"])
def test_a_folder_of_the_same_name_elsewhere_does_not_match(path):
    assert verdict("write", {"path": path}, allowed=("write(docs/*)",)) == "ask"


def test_a_missing_path_means_the_top_of_the_workspace():
    for path in ({}, {"path": "."}, {"path": "/workspace"}):
        assert verdict("list_directory", path, denied=("list_directory(.)",)) == "deny"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/x",
        "HTTPS://EVIL.example/x",
        "https://evil.example:443/x",
        "https://evil.example./x",
        "https://me@evil.example/x",
        "https://evil.example/a/../x",
        "https://evil.example/%78",
        " https://evil.example/x",
    ],
)
def test_a_denied_page_cannot_be_reached_by_another_spelling(url):
    assert verdict("web_fetch", {"url": url}, denied=("web_fetch(https://evil.example/x)",)) == "deny"  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://*.python.org/*", "https://evil.example/.python.org/"),
        ("https://*.python.org/*", "https://evil.example/?a=b.python.org/c"),
        ("https://*.python.org/*", "https://evil.example:8443/x.python.org/"),
        ("https://docs.python.org*", "https://docs.python.org@evil.example/"),
        ("https://docs.python.org", "https://docs.python.org/secret"),
        ("https://docs.python.org/*", "https://docs.python.org:8443/"),
        ("https://docs.python.org/*", "http://docs.python.org/"),
        ("https://docs.python.org/3/*", "https://docs.python.org/3/../2/"),
        ("https://docs.*", "https://evil.example/https://docs.x"),
        ("https://docs.*", "no address"),
    ],
)
def test_a_wildcard_for_a_host_does_not_match_into_the_path(pattern, url):
    assert verdict("web_fetch", {"url": url}, allowed=(f"web_fetch({pattern})",)) == "ask"


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://*.python.org/*", "https://docs.python.org/3/"),
        ("https://Docs.Python.org/*", "https://docs.python.ORG:443/3/?a=B#c"),
        ("https://docs.*", "https://docs.python.org/3/library/"),
        ("https://docs.python.org", "https://docs.python.org/"),
        ("*://docs.python.org/*", "http://docs.python.org/"),
        ("https://bücher.example/*", "https://xn--bcher-kva.example/ü"),
        ("https://xn--bcher-kva.example/*", "https://bücher.example/ü"),
        ("https://[[]2001:db8::1]/*", "https://[2001:DB8::1]/"),
    ],
)
def test_an_allowed_page_matches_every_spelling(pattern, url):
    assert verdict("web_fetch", {"url": url}, allowed=(f"web_fetch({pattern})",)) == "allow"


@pytest.mark.parametrize("to", ["ceo@rival.example", "CEO@Rival.Example", " ceo@rival.example "])
def test_an_email_address_matches_in_any_case(to):
    assert verdict("email", {"to": to}, denied=("email(*@rival.example)",)) == "deny"
    assert verdict("email", {"to": to}, allowed=("email(CEO@rival.example)",)) == "allow"


# ── Lists ────────────────────────────────────────────────────────────────────


def mailer() -> SchemaTool:
    return SchemaTool(
        name="mcp:mail:send",
        title="mail: send",
        description="Send a mail.",
        arguments=AnyArguments,
        category=Category.MCP,
        ownership="mcp",
        permission="always_ask",
        seconds=60,
        subject="recipients",
        handler=lambda arguments, context: None,
        schema={"type": "object", "properties": {"recipients": {"type": "array"}}},
    )


def verdict_on(recipients: Any, **rules: Any) -> str:
    tool = mailer()
    layers = [Layer(name="agent", profile="full", **rules)]
    return decide(tool.name, layers, {"recipients": recipients}, tools={tool.name: tool}).decision


OURS, THEIRS = "team@example.com", "thief@evil.example"


@pytest.mark.parametrize(
    ("recipients", "expected"),
    [
        (OURS, "allow"),
        ([OURS], "allow"),
        ([OURS, "boss@example.com"], "allow"),
        ([OURS, THEIRS], "ask"),
        ([THEIRS, OURS], "ask"),
        ([[THEIRS], OURS], "ask"),
        ([OURS, {"address": THEIRS}], "ask"),
        ([], "ask"),
        ([f"['{THEIRS}', '{OURS}"], "ask"),
    ],
)
def test_an_allowed_recipient_brings_no_second_one_with_it(recipients, expected):
    rule = "mcp:mail:send([a-z]*@example.com)"
    assert verdict_on(recipients, approved=(rule,)) == expected
    assert verdict_on(recipients, allowed=(rule,)) == expected


def test_a_denied_recipient_is_found_anywhere_in_a_list():
    rule = ("mcp:mail:send(*@evil.example)",)
    for recipients in (THEIRS, [THEIRS], [OURS, THEIRS], [OURS, [THEIRS]]):
        assert verdict_on(recipients, denied=rule) == "deny"
        assert verdict_on(recipients, asked=rule, approved=("mcp:mail:send(*)",)) == "ask"
    assert verdict_on([OURS], denied=rule, approved=("mcp:mail:send(*)",)) == "allow"
