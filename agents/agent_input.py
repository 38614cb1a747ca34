"""What may be said about an agent, and what its provider and model are when nothing is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from agents.inputs import STORABLE, Input, wrong_field
from agents.limits import Limits
from agents.models import AgentVersion
from agents.models_catalog import known_models
from agents.provider_keys import statuses
from agents.providers.registry import PROVIDERS

LONGEST_PROMPT_BYTES = 100_000
MOST_FALLBACKS = 5
#: What a new agent uses: the first provider here that the workspace can use.
DEFAULT_MODELS = {"gemini": "gemini-3.8-flash", "openai": "gpt-6.1-terra", "demo": "demo"}


def _known_provider(name: str) -> str:
    if name and name not in PROVIDERS:
        raise ValueError(f"No model provider is named {name!r}. Known: {', '.join(PROVIDERS)}.")
    return name


def _fits(text: str) -> str:
    if (size := len(text.encode())) > LONGEST_PROMPT_BYTES:
        raise ValueError(f"At most {LONGEST_PROMPT_BYTES:,} bytes; these are {size:,}.")
    return text


Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80), STORABLE
]
ProviderName = Annotated[str, AfterValidator(_known_provider)]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, max_length=120), STORABLE]


#: Programs may hand over the id itself.
Reference = Annotated[
    str, BeforeValidator(lambda ref: str(ref) if isinstance(ref, UUID) else ref), STORABLE
]


class Fallback(Input):
    """A model to try when the ones before it failed."""

    provider: Annotated[ProviderName, Field(min_length=1)]
    model: Annotated[ModelName, Field(min_length=1)]


def _spelled_out(said: object) -> object:
    """`demo/demo`, a model's name or a provider's, as a fallback."""
    if not isinstance(said, str):
        return said
    provider, _, model = said.partition("/")
    if provider in PROVIDERS:
        return {"provider": provider, "model": model or DEFAULT_MODELS[provider]}
    found = next((one.provider for one in known_models() if one.name == said), None)
    if found is None:
        raise ValueError(f"Say which provider has the model {said!r}, as in openai/{said}.")
    return {"provider": found, "model": said}


class AgentInput(Input):
    """The definition of an agent. An empty provider or model means the default."""

    name: Name
    description: Annotated[str, Field(max_length=10_000), STORABLE] = ""
    system_prompt: Annotated[str, STORABLE, AfterValidator(_fits)] = ""
    provider: ProviderName = ""
    model: ModelName = ""
    runner: AgentVersion.Runner = AgentVersion.Runner.HARNESS
    fallbacks: Annotated[
        list[Annotated[Fallback, BeforeValidator(_spelled_out)]], Field(max_length=MOST_FALLBACKS)
    ] = []
    temperature: Annotated[float, Field(ge=0, le=2, strict=True)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] | None = None
    #: An id or an exact name. None means the workspace's default.
    environment: Reference | None = None
    limits: Limits = Limits()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A provider and one of its models."""

    provider: str
    model: str


def choose_model(workspace_id: UUID, *, provider: str = "", model: str = "") -> Choice:
    """What was asked for, completed by what the workspace can use."""
    if provider:
        return Choice(provider=provider, model=model or DEFAULT_MODELS[provider])
    if not model:
        return default_model(workspace_id)
    found = next((one.provider for one in known_models() if one.name == model), None)
    if found is None:
        raise wrong_field("provider", f"Say which provider has the model {model!r}.")
    return Choice(provider=found, model=model)


def default_model(workspace_id: UUID) -> Choice:
    """Gemini when there is a key for it, else OpenAI, else the demo.

    A server of the workspace's own that only speaks OpenAI's language has models whose names
    cannot be guessed, so it is never the default.
    """
    found = statuses(workspace_id)
    for provider, model in DEFAULT_MODELS.items():
        if found[provider].configured and not (provider == "openai" and found[provider].own_server):
            return Choice(provider=provider, model=model)
    return Choice(provider="demo", model="demo")
