"""The model providers by name, and how to build a client for one.

The vendors' SDKs take a second to import, so each is imported when its provider is first built.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlsplit

from agents.exceptions import ProviderNotConfigured
from agents.providers.base import Delta, ModelFacts, ModelRequest, Provider, Tick
from core import env
from core.exceptions import Invalid
from core.plugins import add, check_callable, check_new, refuse

if TYPE_CHECKING:
    from httpx2 import Client

#: Seconds of silence after which an answer counts as cut off.
TIMEOUT_SECONDS = 120.0
CHECK_SECONDS = 15.0
#: For how many distinct keys and addresses a process caches a client.
CLIENTS_CACHED = 256
#: Characters of a provider's name that the database stores.
LONGEST_NAME = 20


class CheckedProvider(Provider, Protocol):
    """A provider that can also check whether it would work, and list its models."""

    def check(self, model: str) -> None: ...

    def list_models(self) -> dict[str, ModelFacts]: ...


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The address and the key of a provider."""

    api_key: str | None = None
    base_url: str | None = None
    timeout: float = TIMEOUT_SECONDS
    #: The client to connect with. None means the process's shared client.
    http_client: Client | None = None


@dataclass(frozen=True, kw_only=True)
class ProviderFactory:
    """A provider's facts, and how to build it."""

    name: str
    label: str
    needs_key: bool
    build: Callable[[Connection], CheckedProvider]
    #: Environment variables that may hold the key; the first one set counts.
    key_variables: tuple[str, ...] = ()
    base_url_variable: str = ""


def _build_gemini(connection: Connection) -> CheckedProvider:
    from agents.providers.gemini import GeminiProvider
    from agents.providers.http import shared_client

    return GeminiProvider(
        api_key=connection.api_key or "",
        base_url=connection.base_url,
        timeout=connection.timeout,
        http_client=connection.http_client or shared_client(),
    )


def _build_openai(connection: Connection) -> CheckedProvider:
    from agents.providers.http import shared_client
    from agents.providers.openai import OpenAIProvider

    return OpenAIProvider(
        api_key=connection.api_key,
        base_url=connection.base_url,
        timeout=connection.timeout,
        http_client=connection.http_client or shared_client(),
    )


def _build_anthropic(connection: Connection) -> CheckedProvider:
    from agents.providers.anthropic import AnthropicProvider
    from agents.providers.http import shared_client

    return AnthropicProvider(
        api_key=connection.api_key or "",
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
            name="anthropic",
            label="Anthropic",
            needs_key=True,
            build=_build_anthropic,
            key_variables=("ANTHROPIC_API_KEY",),
            base_url_variable="ANTHROPIC_BASE_URL",
        ),
        ProviderFactory(
            name="demo", label="Demo (not a model)", needs_key=False, build=_build_demo
        ),
    )
}


def register_provider(factory: ProviderFactory) -> None:
    """Add the model provider of a plugin. Agents choose it by its name."""
    if not isinstance(factory, ProviderFactory):
        refuse("provider", f"{factory!r} must be a ProviderFactory.")
    check_new(PROVIDERS, factory.name, kind="provider")
    if len(factory.name) > LONGEST_NAME:
        refuse("provider", f"its name may have {LONGEST_NAME} characters.")
    if not factory.label:
        refuse("provider", "it needs a label, which people see.")
    check_callable(factory.build, kind="provider", what="build")
    add(PROVIDERS, factory.name, factory, kind="provider")


def build_provider(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    http_client: Client | None = None,
) -> Provider:
    """Return the provider of this name. The same key and address return the same client again."""
    connection = Connection(
        api_key=api_key or None,
        base_url=base_url or None,
        timeout=timeout,
        http_client=http_client,
    )
    factory = _require(name, connection)
    if not factory.needs_key:
        return factory.build(connection)
    from agents.providers.http import shared_client

    # The client is part of the cache key: a forked child has a new one and gets a new provider.
    cached = _cached_provider(name, replace(connection, http_client=http_client or shared_client()))
    return InterruptibleProvider(cached)


def check_connection(
    provider_name: str,
    api_key: str | None = None,
    base_url: str | None = None,
    model: str = "",
    *,
    http_client: Client | None = None,
) -> None:
    """Make one cheap call with these settings. Raise a ProviderFault if it fails."""
    connection = Connection(
        api_key=api_key or None,
        base_url=base_url or None,
        timeout=CHECK_SECONDS,
        http_client=http_client,
    )
    _require(provider_name, connection).build(connection).check(model)


def list_models(
    provider_name: str,
    api_key: str | None = None,
    base_url: str | None = None,
    *,
    timeout: float = CHECK_SECONDS,
    http_client: Client | None = None,
) -> dict[str, ModelFacts]:
    """Return the models that the server lists, with the facts that it tells."""
    connection = Connection(
        api_key=api_key or None,
        base_url=base_url or None,
        timeout=timeout,
        http_client=http_client,
    )
    return _require(provider_name, connection).build(connection).list_models()


def credentials_from_environment(name: str) -> tuple[str | None, str | None]:
    """Return the operator's key and address for a provider, each None when not set."""
    factory = find_provider(name)
    key = next((value for name in factory.key_variables if (value := env.text(name))), None)
    return key, (env.text(factory.base_url_variable) if factory.base_url_variable else "") or None


def find_provider(name: str) -> ProviderFactory:
    if name not in PROVIDERS:
        raise Invalid(f"No model provider is named {name!r}. Known: {', '.join(PROVIDERS)}.")
    return PROVIDERS[name]


def is_enough(name: str, api_key: str | None, base_url: str | None) -> bool:
    """Return whether a key is not needed: a self-hosted server often asks for none."""
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


@lru_cache(maxsize=CLIENTS_CACHED)
def _cached_provider(name: str, connection: Connection) -> Provider:
    return PROVIDERS[name].build(connection)


TICK_SECONDS = 0.5
#: Deltas that wait to be taken. A server that sends faster has to wait.
MAX_WAITING = 1_000

Item: TypeAlias = Delta | BaseException | None


class InterruptibleProvider:
    """A provider whose streams can be abandoned at any moment.

    A model may be silent for a long time, and a blocked read cannot be interrupted. So a thread
    reads, and the caller gets a `Tick` whenever nothing arrives for a moment. The stream is closed
    as soon as its thread wakes.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        arrived: Queue[Item] = Queue(MAX_WAITING)
        abandoned = threading.Event()
        source = self._provider.stream(request)
        reader = threading.Thread(
            target=_read, args=(source, arrived, abandoned), name="provider", daemon=True
        )
        reader.start()
        try:
            while True:
                try:
                    item = arrived.get(timeout=TICK_SECONDS)
                except Empty:
                    yield Tick()
                    continue
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            abandoned.set()


def _read(source: Iterator[Delta], arrived: Queue[Item], abandoned: threading.Event) -> None:
    """Pass on every delta and error until the stream ends or is abandoned."""
    try:
        for delta in source:
            if not _pass_on(delta, arrived, abandoned):
                break
        _pass_on(None, arrived, abandoned)
    except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
        _pass_on(error, arrived, abandoned)
    finally:
        close = getattr(source, "close", None)
        if close:
            close()


def _pass_on(item: Item, arrived: Queue[Item], abandoned: threading.Event) -> bool:
    """Wait until the item can be added. Return False if the stream is abandoned."""
    while not abandoned.is_set():
        try:
            arrived.put(item, timeout=TICK_SECONDS)
        except Full:
            continue
        return True
    return False
