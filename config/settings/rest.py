"""How programs are answered: the REST framework, and the document that describes it."""

from __future__ import annotations

from config import env

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.authentication.KeyAuthentication",
        "tenants.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.permissions.HasWorkspace"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [
        "tenants.api.parsing.StrictJSONParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_PAGINATION_CLASS": "tenants.pagination.NewestFirst",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_THROTTLE_CLASSES": ["tenants.throttle.PrincipalThrottle"],
    "EXCEPTION_HANDLER": "config.problems.answer_exception",
    "PAGE_SIZE": 50,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
#: Requests a minute per key or person; the public contract promises at least fifty a second.
REQUESTS_PER_MINUTE = env.number("REQUESTS_PER_MINUTE", 6000)

SPECTACULAR_SETTINGS = {
    "TITLE": "Switchyard",
    "DESCRIPTION": "Build, run and watch AI agents.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    # Several things have a scope or status of their own.
    "ENUM_NAME_OVERRIDES": {
        "KeyScopeEnum": "tenants.models.ApiKey.Scope",
        "MemoryScopeEnum": "memory.models.MemoryEntry.Scope",
        "ApprovalScopeEnum": "sessions_app.models.Approval.Scope",
        "AnswerEnum": "sessions_app.models.Approval.Decision",
        "DecisionEnum": "tools_app.api.serializers.DECISIONS",
        "WorkflowStatusEnum": "orchestrator.models.Workflow.Status",
        "StepStatusEnum": "orchestrator.models.Step.Status",
        "StepKindEnum": "orchestrator.models.Step.Kind",
        "TriggerKindEnum": "orchestrator.models.WorkflowTrigger.Kind",
        "ScheduleKindEnum": "sessions_app.models.Schedule.Kind",
        "OnBusyEnum": "sessions_app.models.Run.OnBusy",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "config.openapi.describe_problems",
    ],
}
