"""Tests of the facts of models: what a workspace sets, what a server tells, and what they change."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agents.definitions import create_agent
from agents.model_catalog import (
    DEFAULT_WINDOW,
    facts_of,
    find_model,
    learn_models,
    offered_models,
    price_call,
    set_facts,
)
from agents.providers.base import ModelFacts, Usage
from agents.providers.keys import save_key
from core.exceptions import InvalidFields
from core.validation import read_input
from sessions_app.context.builder import token_budget
from tests.wire.openai import OpenAIWire

ZERO, ONE = Decimal(0), Decimal(1)
USAGE = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
#: One entry each as vLLM, OpenRouter, llama.cpp, Mistral and Ollama send them, then a hostile one.
ENTRIES = [
    {"id": "vllm", "max_model_len": 32_768},
    {
        "id": "vendor/router",
        "context_length": 200_000,
        "pricing": {"prompt": "0.000003", "completion": "0.000015"},
        "top_provider": {"max_completion_tokens": 64_000},
        "supported_parameters": ["temperature"],
        "architecture": {"input_modalities": ["text", "image"]},
    },
    {"id": "llama.gguf", "meta": {"n_ctx_train": 8_192, "n_params": 1}},
    {
        "id": "mistral",
        "max_context_length": 131_072,
        "capabilities": {"function_calling": True, "vision": False},
    },
    {"id": "ollama:latest", "owned_by": "library"},
    {"id": "nomic-embed-text"},
    {"id": "hostile", "context_length": -5, "pricing": {"prompt": "-1", "completion": "NaN"}},
    {"id": "odd", "context_length": "many", "meta": [], "pricing": {"prompt": {}}},
    {"id": 7},
    {"object": "model"},
    "a word",
    {"id": "x" * 500},
    {"id": "nul\x00"},
]


@pytest.fixture
def server(workspace, allow):
    with OpenAIWire(entries=ENTRIES) as wire:
        save_key(
            workspace_id=workspace.pk,
            provider="openai",
            api_key=wire.key,
            base_url=allow(wire),
        )
        yield wire


def test_a_server_is_asked_for_its_models(workspace, server):
    learn_models(workspace.pk, "openai")
    told = {name: facts_of(workspace.pk, "openai", name) for name in ("vllm", "vendor/router")}

    assert told["vllm"] == ModelFacts(window=32_768)
    assert told["vendor/router"] == ModelFacts(
        window=200_000,
        max_output=64_000,
        input_price=Decimal(3),
        output_price=Decimal(15),
        tools=False,
        images=True,
    )
    assert facts_of(workspace.pk, "openai", "llama.gguf").window == 8_192
    assert facts_of(workspace.pk, "openai", "mistral") == ModelFacts(
        window=131_072, tools=True, images=False
    )
    for name in ("ollama:latest", "hostile", "odd"):
        assert facts_of(workspace.pk, "openai", name) == ModelFacts()
    offered = [model.name for model in offered_models(workspace.pk, "openai", own_server=True)]
    assert offered == sorted(
        ["vllm", "vendor/router", "llama.gguf", "mistral", "ollama:latest", "hostile", "odd"]
    )


def test_what_a_server_tells_bounds_the_context_and_is_charged(workspace, server):
    learn_models(workspace.pk, "openai")
    agent = create_agent(
        workspace_id=workspace.pk, fields={"name": "A", "provider": "openai", "model": "vllm"}
    )

    assert token_budget(agent.current, "openai", "vllm").window == 32_768
    assert token_budget(agent.current, "openai", "unheard-of").window == DEFAULT_WINDOW
    assert price_call(workspace.pk, "openai", "vendor/router", USAGE) == 18
    assert not token_budget(agent.current, "openai", "vendor/router").takes_tools


def test_what_a_workspace_sets_counts_before_what_the_server_tells(workspace, server):
    learn_models(workspace.pk, "openai")
    set_facts(
        workspace.pk, "openai", "", ModelFacts(window=4_000, input_price=ONE, output_price=ONE)
    )
    set_facts(workspace.pk, "openai", "vllm", ModelFacts(window=16_000))

    assert find_model("openai", "vllm", workspace_id=workspace.pk).window == 16_000
    assert find_model("openai", "mistral", workspace_id=workspace.pk).window == 4_000
    assert price_call(workspace.pk, "openai", "anything", USAGE) == 2
    set_facts(workspace.pk, "openai", "vllm", ModelFacts())
    assert find_model("openai", "vllm", workspace_id=workspace.pk).window == 4_000


def test_facts_of_one_workspace_are_unknown_to_another(workspace, foreign_workspace):
    set_facts(workspace.pk, "openai", "m", ModelFacts(window=4_000))

    there = find_model("openai", "m", workspace_id=foreign_workspace.pk)
    assert there.window == DEFAULT_WINDOW


def test_tenants_cannot_lower_prices_that_the_operator_pays(workspace, monkeypatch, settings):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    settings.OPERATOR_KEYS = "all"
    set_facts(workspace.pk, "openai", "gpt-4o", ModelFacts(input_price=ZERO, output_price=ZERO))

    assert price_call(workspace.pk, "openai", "gpt-4o", USAGE) > 0


def test_another_address_forgets_the_models_of_the_last(workspace, server):
    learn_models(workspace.pk, "openai")
    set_facts(workspace.pk, "openai", "", ModelFacts(window=4_000))
    save_key(workspace_id=workspace.pk, provider="openai", base_url="https://other.example/v1")
    learnt = find_model("openai", "vllm", workspace_id=workspace.pk)

    assert learnt.window == DEFAULT_WINDOW


@pytest.mark.parametrize(
    "facts", [{"window": 0}, {"input_price": -1}, {"tools": "perhaps"}, {"size": 3}]
)
def test_implausible_facts_are_refused(facts):
    with pytest.raises(InvalidFields):
        read_input(ModelFacts, facts)


def test_facts_are_read_and_set_over_rest(workspace, api, server):
    path = "/api/v1/providers/openai/models/"
    assert api.get(path).json()["results"] == []
    asked = {one["name"]: one for one in api.post(path).json()["results"]}
    assert asked["vllm"]["window"] == 32_768
    body = {"model": "vllm", "window": 9_000, "tools": False}
    after = {one["name"]: one for one in api.put(path, body, format="json").json()["results"]}

    assert (after["vllm"]["window"], after["vllm"]["tools"]) == (9_000, False)
    assert api.put(path, {"window": 0}, format="json").status_code == 400


def test_a_connection_test_learns_the_models(workspace, api, server):
    assert api.post("/api/v1/providers/openai/test/", {}, format="json").json()["ok"]

    assert facts_of(workspace.pk, "openai", "vllm").window == 32_768
