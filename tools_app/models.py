"""Custom tools, MCP servers and skills of a workspace, and its policies with their revisions."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.models import OwnedModel

RULE_LENGTH = 150


class Permission(models.TextChoices):
    """Whether calls ask a person first when no policy says otherwise."""

    ALWAYS_ALLOW = "always_allow"
    ALWAYS_ASK = "always_ask"


class CustomTool(OwnedModel):
    name = models.CharField(max_length=60)
    description = models.TextField()
    #: A JSON Schema of an object.
    input_schema = models.JSONField(default=dict)
    permission = models.CharField(
        max_length=12, choices=Permission, default=Permission.ALWAYS_ALLOW
    )
    #: How long a call waits for its result.
    timeout_seconds = models.PositiveIntegerField(default=300)

    class Meta:
        db_table = "agent_custom_tools"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="custom_tool_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class McpServer(OwnedModel):
    class Transport(models.TextChoices):
        HTTP = "http", "HTTP"
        STDIO = "stdio", "A command in the sandbox"

    class Status(models.TextChoices):
        NEW = "new", "Not asked yet"
        OK = "ok", "Works"
        DOWN = "down", "Cannot be reached"
        REFUSED = "refused", "Refuses"
        FAILED = "failed", "Does not work"

    name = models.CharField(max_length=40)
    transport = models.CharField(max_length=5, choices=Transport, default=Transport.HTTP)
    url = models.CharField(max_length=500, blank=True)
    #: Values name secrets as `{{vault:NAME}}` and never contain one.
    headers = models.JSONField(default=dict, blank=True)
    #: One bash command line, run in the sandbox.
    command = models.CharField(max_length=2_000, blank=True)
    enabled = models.BooleanField(default=True)
    permission = models.CharField(max_length=12, choices=Permission, default=Permission.ALWAYS_ASK)
    timeout_seconds = models.PositiveIntegerField(default=60)
    #: Tools that may be called twice without harm, as an admin decides and not the server.
    repeatable_tools = ArrayField(models.CharField(max_length=100), default=list, blank=True)

    status = models.CharField(max_length=7, choices=Status, default=Status.NEW, editable=False)
    error = models.TextField(blank=True, editable=False)
    #: `[{name, description, input_schema}]`, checked and bounded.
    tools = models.JSONField(default=list, editable=False)
    #: Why some of its tools are not offered.
    left_out = models.JSONField(default=list, editable=False)
    protocol = models.CharField(max_length=20, blank=True, editable=False)
    server_info = models.CharField(max_length=200, blank=True, editable=False)
    refreshed_at = models.DateTimeField(null=True, editable=False)
    tried_at = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    #: When the supervisor asks it for its tools again.
    due_at = models.DateTimeField(db_default=Now(), editable=False)
    #: Grows with every change of what agents are offered.
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        db_table = "mcp_servers"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="mcp_server_name_is_unique_in_its_workspace"
            ),
        ]
        indexes = [models.Index(fields=["due_at"], condition=Q(enabled=True), name="mcp_due")]

    def __str__(self) -> str:
        return self.name


class Skill(OwnedModel):
    name = models.CharField(max_length=60)
    #: One line, for the prompt of every agent that has the skill.
    description = models.CharField(max_length=300)
    body = models.TextField()
    #: The agents that have the skill. If empty, all agents of the workspace.
    agents = ArrayField(models.UUIDField(), default=list, blank=True)
    enabled = models.BooleanField(default=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "agent_skills"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="skill_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name


def rules() -> ArrayField:
    return ArrayField(models.CharField(max_length=RULE_LENGTH), default=list, blank=True)


class PolicyFields(models.Model):
    """The rules of a policy. Without any, it has no effect."""

    profile = models.CharField(max_length=20, null=True, blank=True)
    allowed_tools = rules()
    denied_tools = rules()
    ask_tools = rules()
    #: Calls that run without asking. Unlike `allowed_tools` they narrow nothing.
    approved_tools = rules()
    max_tool_calls_per_turn = models.PositiveIntegerField(null=True, blank=True)
    #: The agents whose sessions an agent may list, read or write to: `{agent, may}` each.
    peers = models.JSONField(default=list, blank=True)

    class Meta:
        abstract = True


class ToolPolicy(PolicyFields, OwnedModel):
    """The current policy of one layer. `revision` is the number of its newest revision."""

    class Layer(models.TextChoices):
        WORKSPACE = "workspace"
        AGENT = "agent"
        ENVIRONMENT = "environment"
        SESSION = "session"
        SUBAGENT = "subagent"

    layer = models.CharField(max_length=11, choices=Layer)
    #: The workspace, agent, environment or session that the policy binds. Not a foreign key:
    #: sessions belong to a later app, and the policy of a deleted environment can still be read.
    subject_id = models.UUIDField()
    revision = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "agent_tool_policies"
        verbose_name_plural = "tool policies"
        ordering = ["-created_at"]
        constraints = [
            # The subject comes first, as a run reads all layers of its subjects at once.
            models.UniqueConstraint(
                fields=["subject_id", "layer"], name="policy_is_one_per_layer_and_subject"
            ),
        ]

    def __str__(self) -> str:
        return f"policy of {self.layer} {self.subject_id}"


class PolicyRevision(PolicyFields, OwnedModel):
    """A revision of a policy, with its author. The database refuses to change it."""

    policy = models.ForeignKey(ToolPolicy, on_delete=models.CASCADE, related_name="revisions")
    revision = models.PositiveIntegerField()
    #: The person's e-mail address or the key's name at that time.
    author = models.CharField(max_length=254, blank=True)
    #: The revision that was restored, if this is a revert.
    reverts_to = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        db_table = "agent_tool_policy_revisions"
        ordering = ["-revision"]
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "revision"], name="revision_is_unique_in_its_policy"
            ),
        ]

    def __str__(self) -> str:
        return f"revision {self.revision} of {self.policy_id}"
