"""The model providers by name, and how to get one.

The vendors' SDKs take a second to import, so each is imported when its provider is first built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from agents.providers.base import Provider
from agents.providers.pool import shared_client
from agents.providers.reading import ReadApart
from config import env
from config.faults import Invalid, ProviderNotConfigured

if TYPE_CHECKING:
    from httpx2 import Client

#: Seconds of silence after which an answer counts as broken off.
TIMEOUT_SECONDS = 120.0
CHECK_SECONDS = 15.0
#: Distinct keys and addresses for which a process keeps a client ready.
CLIENTS_KEPT = 256


class CheckedProvider(Provider, Protocol):
    """A provider that can also say whether it would work."""

    def check(self, model: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where and with which key to reach a provider."""

    api_key: str | None = None
    base_url: str | None = None
    timeout: float = TIMEOUT_SECONDS
    #: Connects only where the caller allows it. None means the process's own shared pool.
    http_client: Client | None = None


@dataclass(frozen=True, kw_only=True)
class ProviderFactory:
    """What is known of a provider before it is built."""

    name: str
    label: str
    needs_key: bool
    build: Callable[[Connection], CheckedProvider]
    #: Variables of the environment that may hold the key; the first one set counts.
    key_variables: tuple[str, ...] = ()
    base_url_variable: str = ""


def _build_gemini(connection: Connection) -> CheckedProvider:
    from agents.providers.gemini import GeminiProvider

    return GeminiProvider(
        api_key=connection.api_key or "",
        base_url=connection.base_url,
        timeout=connection.timeout,
        http_client=connection.http_client or shared_client(),
    )


def _build_openai(connection: Connection) -> CheckedProvider:
    from agents.providers.openai import OpenAIProvider

    return OpenAIProvider(
        api_key=connection.api_key,
        base_url=connection.base_url,
        timeout=connection.timeout,
        http_client=connection.http_client or shared_client(),
    )


def _build_demo(connection: Connection) -> CheckedProvider:
    from agents.providers.demo import DemoProvider

    return DemoProvider(delay_seconds=env.seconds("DEMO_DELAY_SECONDS", DemoProvider.DELAY_SECONDS))


PROVIDERS: dict[str, ProviderFactory] = {
    factory.name: factory
    for factory in (
        ProviderFactory(
            name="gemini",
            label="Google Gemini",
            needs_key=True,
            build=_build_gemini,
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            base_url_variable="GEMINI_BASE_URL",
        ),
        ProviderFactory(
            name="openai",
            label="OpenAI or compatible",
            needs_key=True,
            build=_build_openai,
            key_variables=("OPENAI_API_KEY",),
            base_url_variable="OPENAI_BASE_URL",
        ),
        ProviderFactory(
            name="demo", label="Demo (not a model)", needs_key=False, build=_build_demo
        ),
    )
}


def build_provider(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    http_client: Client | None = None,
) -> Provider:
    """The provider of this name. The same key and address give the same client again."""
    connection = Connection(
        api_key=api_key or None,
        base_url=base_url or None,
        timeout=timeout,
        http_client=http_client,
    )
    factory = _require(name, connection)
    if not factory.needs_key:
        return factory.build(connection)
    # The pool is named in the key: a forked child has a new one, so it never gets its parent's.
    kept = _kept(name, replace(connection, http_client=http_client or shared_client()))
    return ReadApart(kept)


def check_connection(
    provider_name: str,
    api_key: str | None = None,
    base_url: str | None = None,
    model: str = "",
    *,
    http_client: Client | None = None,
) -> None:
    """Make one cheap call with these very settings; a fault says what is wrong with them."""
    connection = Connection(
        api_key=api_key or None,
        base_url=base_url or None,
        timeout=CHECK_SECONDS,
        http_client=http_client,
    )
    _require(provider_name, connection).build(connection).check(model)


def credentials_from_environment(name: str) -> tuple[str | None, str | None]:
    """The key and the address that the operator has set for a provider, each None when not set."""
    factory = find_provider(name)
    key = next((value for one in factory.key_variables if (value := env.text(one))), None)
    return key, (env.text(factory.base_url_variable) if factory.base_url_variable else "") or None


def find_provider(name: str) -> ProviderFactory:
    if name not in PROVIDERS:
        raise Invalid(f"No model provider is named {name!r}. Known: {', '.join(PROVIDERS)}.")
    return PROVIDERS[name]


def is_enough(name: str, api_key: str | None, base_url: str | None) -> bool:
    """A server of one's own often asks for no key; the vendors' own addresses always do."""
    return bool(api_key or (name == "openai" and base_url))


def _require(name: str, connection: Connection) -> ProviderFactory:
    factory = find_provider(name)
    if connection.base_url and not _is_web_address(connection.base_url):
        raise Invalid("The address of a model provider must begin with http:// or https://.")
    if factory.needs_key and not is_enough(name, connection.api_key, connection.base_url):
        raise ProviderNotConfigured(
            f"No key is set for {factory.label}. Add one in the settings, or choose the demo."
        )
    return factory


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


@lru_cache(maxsize=CLIENTS_KEPT)
def _kept(name: str, connection: Connection) -> Provider:
    return PROVIDERS[name].build(connection)
