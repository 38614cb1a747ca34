"""Fixtures of the doors: one stack, a model server that follows a script, and an agent on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from openai import OpenAI

from tests.stack.client import Client
from tests.stack.running import Running, started
from tests.wire.answers import JSON, Answer, Reply
from tests.wire.openai import OpenAIWire

AGENT = "Helper"


class Model:
    """Answers requests by a function that a test sets."""

    answer: Callable[[JSON], Reply]

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.requests: list[JSON] = []
        self.answer = lambda body: Answer(text=("Hello ", "there."))

    def __call__(self, body: JSON) -> Reply:
        self.requests.append(body)
        return self.answer(body)


@pytest.fixture(scope="package")
def scripted() -> Model:
    return Model()


@pytest.fixture(scope="package")
def model_server(scripted: Model) -> Iterator[OpenAIWire]:
    with OpenAIWire(scripted) as wire:
        yield wire


@pytest.fixture(scope="package")
def stack(model_server: OpenAIWire) -> Iterator[Running]:
    address = urlsplit(model_server.url).netloc
    with started("doors", EGRESS_ALLOWED_PRIVATE=address) as running:
        yield running


@pytest.fixture(scope="package")
def client(stack: Running, model_server: OpenAIWire) -> Client:
    """Return a client with an admin key, of a workspace with one agent on the model server."""
    made = Client(stack)
    key = {"api_key": model_server.key, "base_url": model_server.url}
    made.call("providers/openai/", key, method="PUT")
    fields = {
        "name": AGENT,
        "description": "Helps.",
        "system_prompt": "Help.",
        "provider": "openai",
    }
    made.call("agents/", {**fields, "model": "gpt-4o-mini"})
    return made


@pytest.fixture
def model(scripted: Model) -> Model:
    """Return the model behind the agent, with no requests recorded yet."""
    scripted.reset()
    return scripted


@pytest.fixture
def openai(client: Client, stack: Running, model: Model) -> Iterator[OpenAI]:
    with OpenAI(api_key=client.key, base_url=f"{stack.base_url}/v1", max_retries=0) as made:
        yield made
