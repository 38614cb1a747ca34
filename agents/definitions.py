"""Creates, changes, archives and finds agents. Every change is a numbered, immutable version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from jsonschema import Draft202012Validator, exceptions  # type: ignore[import-untyped]
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from agents.environments import find_environment, recent_environment
from agents.limits import Limits, limits_of
from agents.model_catalog import known_models, lock_settings
from agents.models import Agent, AgentVersion, ProviderSettings
from agents.providers.keys import Status, statuses
from agents.providers.registry import PROVIDERS
from core.db import lock_row
from core.exceptions import Conflict, NotFound
from core.validation import (
    FITTING,
    STORABLE,
    Input,
    is_storable,
    merge_fields,
    read_input,
    wrong_field,
)
from tenants.models import User

LONGEST_PROMPT_BYTES = 100_000
MOST_FALLBACKS = 5
#: The model of a new agent: that of the first provider here that the workspace can use.
DEFAULT_MODELS = {
    "gemini": "gemini-3.8-flash",
    "openai": "gpt-6.1-terra",
    "anthropic": "claude-sonnet-5-5",
    "demo": "demo",
}


def _known_provider(name: str) -> str:
    if name and name not in PROVIDERS:
        raise ValueError(f"No model provider is named {name!r}. Known: {', '.join(PROVIDERS)}.")
    return name


def _fits(text: str) -> str:
    if (size := len(text.encode())) > LONGEST_PROMPT_BYTES:
        raise ValueError(f"At most {LONGEST_PROMPT_BYTES:,} bytes; this has {size:,}.")
    return text


Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80), STORABLE
]
ProviderName = Annotated[str, AfterValidator(_known_provider)]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, max_length=120), STORABLE]
Prompt = Annotated[str, STORABLE, AfterValidator(_fits)]
Temperature = Annotated[float, Field(ge=0, le=2, strict=True)]
#: How much a model thinks. Empty leaves it to the model.
EffortName = Literal["", "off", "low", "medium", "high"]
MaxTokens = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]


LARGEST_SCHEMA = 50_000


def _is_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Validate a schema of answers. What evaluating it costs is bounded where it is used."""
    if len(orjson.dumps(schema)) > LARGEST_SCHEMA:
        raise ValueError(f"The schema has more than {LARGEST_SCHEMA:,} bytes.")
    if schema.get("type") != "object":
        raise ValueError('The schema must describe an object: {"type": "object", …}.')
    try:
        # Without formats: checking whether a pattern compiles would compile it.
        Draft202012Validator.check_schema(schema, format_checker=None)
    except exceptions.SchemaError as error:
        raise ValueError(f"This is not a JSON Schema: {error.message[:300]}") from None
    return schema


ResponseSchema = Annotated[dict[str, Any], FITTING, AfterValidator(_is_schema)]


#: Callers inside the product may pass the id itself.
Reference = Annotated[
    str, BeforeValidator(lambda ref: str(ref) if isinstance(ref, UUID) else ref), STORABLE
]


class ModelChoice(Input):
    """A provider and the name of one of its models."""

    provider: Annotated[ProviderName, Field(min_length=1)]
    model: Annotated[ModelName, Field(min_length=1)]


class Fallback(ModelChoice):
    """A model to try when the models before it have failed."""


def _parse_fallback(value: object) -> object:
    """Parse `demo/demo`, the name of a model or the name of a provider."""
    if not isinstance(value, str):
        return value
    provider, _, model = value.partition("/")
    if provider in PROVIDERS:
        return {"provider": provider, "model": model or DEFAULT_MODELS[provider]}
    found = next((model.provider for model in known_models() if model.name == value), None)
    if found is None:
        raise ValueError(f"Name the provider of the model {value!r}, as in openai/{value}.")
    return {"provider": found, "model": value}


class AgentInput(Input):
    """The definition of an agent. An empty provider or model means the default."""

    name: Name
    description: Annotated[str, Field(max_length=10_000), STORABLE] = ""
    system_prompt: Prompt = ""
    provider: ProviderName = ""
    model: ModelName = ""
    runner: AgentVersion.Runner = AgentVersion.Runner.HARNESS
    fallbacks: Annotated[
        list[Annotated[Fallback, BeforeValidator(_parse_fallback)]],
        Field(max_length=MOST_FALLBACKS),
    ] = []
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None
    effort: EffortName = ""
    response_schema: ResponseSchema | None = None
    #: The id or the exact name of an environment. None means the workspace's default.
    environment: Reference | None = None
    limits: Limits = Limits()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A provider and one of its models."""

    provider: str
    model: str


def choose_model(workspace_id: UUID, *, provider: str = "", model: str = "") -> Choice:
    """Complete the requested provider or model with what the workspace can use."""
    if provider and model:
        return Choice(provider=provider, model=model)
    if not model:
        chosen = default_model(workspace_id)
        if provider in ("", chosen.provider):
            return chosen
        return Choice(provider=provider, model=DEFAULT_MODELS[provider])
    found = next((one.provider for one in known_models() if one.name == model), None)
    if found is None:
        raise wrong_field("provider", f"Name the provider of the model {model!r}.")
    return Choice(provider=found, model=model)


def override_model(version: AgentVersion, provider: str = "", model: str = "") -> Choice:
    """Complete the provider or model that one run asks for. A model that is not in the catalog is
    looked for at the agent's own provider.
    """
    if not provider:
        known = (one.provider for one in known_models() if one.name == model)
        provider = next(known, version.provider)
    return Choice(provider=provider, model=model or DEFAULT_MODELS[provider])


def default_model(workspace_id: UUID, found: Mapping[str, Status] | None = None) -> Choice:
    """Return the model that the workspace chose for all agents, if it has a key for it.

    Otherwise return Gemini's default if there is a key for it, else OpenAI's, else the demo's. A
    server of the workspace's own has to be chosen: the names of its models cannot be guessed.
    """
    found = found or statuses(workspace_id)
    chosen = chosen_model(workspace_id)
    # A provider that is no longer installed has no status.
    status = found.get(chosen.provider) if chosen else None
    if chosen and status and status.configured:
        return chosen
    for provider, model in DEFAULT_MODELS.items():
        if found[provider].configured and not (provider == "openai" and found[provider].own_server):
            return Choice(provider=provider, model=model)
    return Choice(provider="demo", model="demo")


def chosen_model(workspace_id: UUID) -> Choice | None:
    """Return the model that the workspace chose for all agents, if any."""
    rows = ProviderSettings.objects.for_workspace(workspace_id).exclude(default_model="")
    row = rows.values_list("provider", "default_model").first()
    return Choice(provider=row[0], model=row[1]) if row else None


@transaction.atomic
def use_for_all_agents(
    workspace_id: UUID, choice: Choice, *, by: User | None = None
) -> list[Agent]:
    """Make this the workspace's default model, and move the agents that had no model of their own.

    Those are the agents on the demo and on the last default. Each gets a version with a note.
    Return the agents that were moved.
    """
    given = read_input(ModelChoice, {"provider": choice.provider, "model": choice.model})
    last = chosen_model(workspace_id)
    rows = ProviderSettings.objects.for_workspace(workspace_id)
    # All in one order, so that two choices at the same time wait for each other.
    list(rows.select_for_update().order_by("pk"))
    rows.exclude(provider=given.provider).update(default_model="")
    row = lock_settings(workspace_id, given.provider, by)
    row.default_model = given.model
    row.save(update_fields=["default_model"])
    inherits = Q(current__provider="demo")
    if last:
        inherits |= Q(current__provider=last.provider, current__model=last.model)
    agents = Agent.objects.for_workspace(workspace_id).active().filter(inherits, is_draft=False)
    changes = {"provider": given.provider, "model": given.model}
    moved = [agent for agent in agents.select_related("current") if not _is_on(agent, given)]
    for agent in moved:
        change_agent(
            agent, changes, by=by, note=f"Moved to {given.model}, the workspace's default."
        )
    return moved


def _is_on(agent: Agent, choice: ModelChoice) -> bool:
    current = current_version(agent)
    return (current.provider, current.model) == (choice.provider, choice.model)


#: How many versions a process caches.
VERSIONS_CACHED = 1_000
COLUMNS = (*(name for name in AgentInput.model_fields if name != "environment"), "environment_id")


@transaction.atomic
def create_agent(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Agent:
    """Create an agent with its first version."""
    columns = columns_for(workspace_id, fields)
    agent = Agent.objects.create(workspace_id=workspace_id, created_by=created_by)
    write_version(agent, number=1, columns=columns, by=created_by)
    return agent


@transaction.atomic
def change_agent(
    agent: Agent,
    changes: Mapping[str, Any],
    *,
    by: User | None = None,
    replace: bool = False,
    expected_version: int | None = None,
    note: str = "",
) -> AgentVersion:
    """Create the next version, or return the current one when nothing would change.

    With `replace`, unnamed fields go back to their default. Writers wait for each other on the
    agent's row, so version numbers have no gaps. Raise Conflict if `expected_version` is older than
    the current version.
    """
    locked = lock_row(agent)
    if locked.archived_at:
        raise Conflict("This agent was archived.")
    # Read after locking: a join would return the version that was current before the lock.
    current = locked.versions.published().order_by("-number").first()
    if current is None:
        raise Conflict("This agent has no published version. Change its draft and publish it.")
    if expected_version not in (None, current.number):
        raise Conflict(f"Version {current.number} is newer than version {expected_version}.")
    fields = changes if replace else merged_fields(fields_of(current), changes)
    columns = columns_for(locked.workspace_id, fields)
    if columns != _columns_of(current):
        number = current.number + 1
        current = write_version(locked, number=number, columns=columns, by=by, note=note)
    agent.current = current
    return current


def archive_agent(agent: Agent) -> None:
    """Archive an agent: it starts nothing new, and its sessions stay readable."""
    Agent.objects.filter(pk=agent.pk, archived_at=None).update(archived_at=Now())


def restore_agent(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(archived_at=None)


def find_agent(workspace_id: UUID, ref: str | UUID) -> Agent:
    """Return the active, published agent with this id or exact name, with its current version."""
    rows = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    try:
        found = list(rows.filter(pk=UUID(str(ref))))
    except ValueError:
        found = list(rows.filter(current__name=ref)[:2]) if is_storable(str(ref)) else []
    if not found:
        raise NotFound(f"There is no agent {str(ref)[:80]!r} here.")
    if len(found) > 1:
        raise Conflict(f"Several agents are named {ref!r}. Use the id of one.")
    return found[0]


def current_version(agent: Agent) -> AgentVersion:
    """Return the agent's current version. Every agent has one from its creation on."""
    return agent.current or agent.versions.published().order_by("-number")[0]


def version_by_id(version_id: UUID) -> AgentVersion:
    """Return a version with its environment, usually without a query.

    A version never changes, so it is cached; its environment is at most a few seconds old.
    """
    version = copy(_cached_version(version_id))
    if version.environment_id:
        version.environment = recent_environment(version.environment_id)
    return version


def fields_of(version: AgentVersion) -> dict[str, Any]:
    """Return a version's definition as the fields of `AgentInput`."""
    fields = _columns_of(version)
    fields["environment"] = fields.pop("environment_id")
    return fields


def _columns_of(version: AgentVersion) -> dict[str, Any]:
    """Return a version's columns as they would be written now: limits may have changed since."""
    columns = {name: getattr(version, name) for name in COLUMNS}
    return columns | {"limits": limits_of(version).model_dump()}


@lru_cache(maxsize=VERSIONS_CACHED)
def _cached_version(version_id: UUID) -> AgentVersion:
    return AgentVersion.objects.find(pk=version_id)


def merged_fields(current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition after a change."""
    fields = merge_fields(current, changes)
    if "model" not in changes and fields["provider"] != current["provider"]:
        fields["model"] = ""  # The old model does not exist at the new provider.
    return fields


def columns_for(workspace_id: UUID, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Validate a definition and return it as the columns of a version."""
    given = read_input(AgentInput, fields)
    choice = choose_model(workspace_id, provider=given.provider, model=given.model)
    columns = given.model_dump(mode="json", exclude={"environment"})
    columns |= {"provider": choice.provider, "model": choice.model, "environment_id": None}
    if given.environment is not None:
        try:
            columns["environment_id"] = find_environment(workspace_id, given.environment).pk
        except NotFound as fault:
            raise wrong_field("environment", fault.detail) from None
    return columns


def write_version(
    agent: Agent, *, number: int, columns: Mapping[str, Any], by: User | None, note: str = ""
) -> AgentVersion:
    """Create a version and make it the agent's current one."""
    version = AgentVersion.objects.create(
        agent=agent,
        workspace_id=agent.workspace_id,
        number=number,
        created_by=by,
        note=note[:200],
        **columns,
    )
    agent.current = version
    agent.save(update_fields=["current"])
    return version


def name_agents(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of these agents, including archived ones."""
    found = Agent.objects.for_workspace(workspace_id).filter(pk__in=list(ids))
    return dict(found.values_list("pk", "current__name"))
