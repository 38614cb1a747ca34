"""Settings shared by all environments."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from csp.constants import NONCE, NONE, SELF

from core import env, plugins
from core.logging import logging_config
from core.postgres import socket_dir

ROOT = env.ROOT
DATA_DIR: Path = env.data_dir()
HOST = env.text("HOST", "127.0.0.1")
PORT = env.number("PORT", 8000)
PUBLIC_URL = env.text("PUBLIC_URL", f"http://{HOST}:{PORT}")
#: Whether `up` restarts its programs when their code changes; see `dev.py`.
AUTORELOAD = False
#: Processes that serve one port under `up`. More than a few use up connections of the database.
WEB_PROCESSES = env.number("WEB_PROCESSES", min(env.processors(), 4))
VITE_PORT = env.number("VITE_PORT", 5173)

#: The apps of the product. A service imports only services of the same app and of those before it.
APPS = ["core", "tenants", "agents", "tools_app", "memory", "sessions_app", "orchestrator"]
#: Packages that must be installed and working, beside those that entry points name.
PLUGINS = env.strings("PLUGINS")
_plugin_apps, _plugin_settings = plugins.install(PLUGINS)
globals().update(_plugin_settings)
INSTALLED_APPS: list[Any] = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_filters",
    "django_prometheus",
    "django_q",
    "django_structlog",
    "django_vite",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    *APPS,
    *_plugin_apps,
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "core.middleware.ContentPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "core.middleware.NoStoreMiddleware",
    "core.middleware.CompressionMiddleware",
    "core.middleware.RequestIdMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "core.middleware.SlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "tenants.authentication.PrincipalMiddleware",
    "core.middleware.LazyMessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "core.problems.ProblemMiddleware",
    "core.middleware.MetricsMiddleware",
    # The innermost one is synchronous, so the whole chain runs in one thread without switching.
    "tenants.idempotency.IdempotencyMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
AUTH_USER_MODEL = "tenants.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "tenants.pages.navigation.frame",
            ],
        },
    }
]

# ── Database ─────────────────────────────────────────────────────────────────
DATABASE_URL = env.text("DATABASE_URL")
EMBEDDED = not DATABASE_URL
#: Connections that one process may hold. Runs hold none while they wait for a model.
DATABASE_POOL = env.number("DATABASE_POOL", 8)


def _database() -> dict[str, Any]:
    if DATABASE_URL:
        address = env.database_address(DATABASE_URL)
        location = {
            "NAME": address.name,
            "USER": address.user,
            "PASSWORD": address.password,
            "HOST": address.host,
            "PORT": address.port,
        }
        options: dict[str, Any] = dict(address.options)
    else:
        location = {"NAME": "switchyard", "USER": "postgres", "HOST": str(socket_dir(DATA_DIR))}
        options = {}
    options |= {
        # A pool that opens one at start opens a second one for the request that asks first.
        "pool": {"min_size": 0, "max_size": DATABASE_POOL, "timeout": 20},
        "prepare_threshold": 1,
    }
    return {
        "ENGINE": "core.postgresql",
        **location,
        "OPTIONS": options,
        # A restart of PostgreSQL breaks no request.
        "CONN_HEALTH_CHECKS": True,
    }


DATABASES = {"default": _database()}

# ── Live frames ──────────────────────────────────────────────────────────────
REDIS_URL = env.text("REDIS_URL")
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": (
        {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
        if REDIS_URL
        else {"BACKEND": "core.channel_layer.PostgresChannelLayer"}
    )
}

# ── Workers ──────────────────────────────────────────────────────────────────
WORKERS = env.number("WORKERS", 2)
#: Runs that one worker process hosts at once. They mostly wait for a model.
LANES_PER_WORKER = env.number("LANES_PER_WORKER", 700)
LEASE_SECONDS = env.seconds("LEASE_SECONDS", 30)
HEARTBEAT_SECONDS = env.seconds("HEARTBEAT_SECONDS", 5)
#: A run that takes longer is stopped, even if its worker is healthy.
RUN_DEADLINE_SECONDS = env.seconds("RUN_DEADLINE_SECONDS", 3600)
#: A run that was lost this often without progress fails.
RUN_MAX_ATTEMPTS = env.number("RUN_MAX_ATTEMPTS", 5)
#: Workflows that run at once. Waiting workflows do not count.
WORKFLOWS_PER_WORKER = env.number("WORKFLOWS_PER_WORKER", 64)
WORKFLOWS_PER_WORKSPACE = env.number("WORKFLOWS_PER_WORKSPACE", 100)
WORKFLOW_MAX_RECOVERIES = env.number("WORKFLOW_MAX_RECOVERIES", 20)
WORKFLOW_RETENTION_DAYS = env.number("WORKFLOW_RETENTION_DAYS", 90)
SUPERVISOR_SECONDS = env.seconds("SUPERVISOR_SECONDS", 1)
#: `up` restarts a program that gives no sign of life for longer.
HANG_SECONDS = 45.0

# US dollars that a new workspace starts with, and below which its admins are warned.
STARTING_CREDITS = env.amount("STARTING_CREDITS", "10")
#: How many workspaces of one person start with credits. Staff can add credits to any.
STARTING_CREDITS_WORKSPACES = env.number("STARTING_CREDITS_WORKSPACES", 1)
LOW_CREDITS = env.amount("LOW_CREDITS", "1")
#: An approval that is not answered in this time is denied.
APPROVAL_SECONDS = env.seconds("APPROVAL_SECONDS", 7 * 24 * 3600)
Q_CLUSTER: dict[str, Any] = {
    "name": "lanes",
    "broker_class": "orchestrator.worker.NotifyBroker",
    "orm": "default",
    "workers": WORKERS,
    "timeout": 80_000,
    "retry": 86_400,
    "poll": 1,
    "bulk": 16,
    "queue_limit": 64,
    "save_limit": -1,
    "recycle": 1_000_000_000,
    "guard_cycle": 0.5,
    "scheduler": False,
    "ack_failures": True,
    "label": "Wake-ups",
    "log_level": "WARNING",
}

# ── Sandboxes ────────────────────────────────────────────────────────────────
#: Where a Docker-compatible engine listens. Empty means the usual places, or our own Podman.
CONTAINER_SOCKET = env.text("CONTAINER_SOCKET")
CONTAINER_IMAGE = env.text("CONTAINER_IMAGE", "switchyard/base")
#: How fast one command may read, and write, the disk of DATA_DIR. 0: no limit.
SANDBOX_DISK_MB_PER_SECOND = env.number("SANDBOX_DISK_MB_PER_SECOND", 200)
#: A container in which nothing ran for this long is removed. Its files stay.
DISK_RESERVE_MB = env.number("DISK_RESERVE_MB", 512)
SESSION_STORAGE_MB = env.number("SESSION_STORAGE_MB", 5_120)
SESSION_STORAGE_FILES = env.number("SESSION_STORAGE_FILES", 250_000)
WORKSPACE_STORAGE_MB = env.number("WORKSPACE_STORAGE_MB", 51_200)
WORKSPACE_STORAGE_FILES = env.number("WORKSPACE_STORAGE_FILES", 2_500_000)
SANDBOX_IDLE_SECONDS = env.seconds("SANDBOX_IDLE_SECONDS", 900)
#: US dollars per minute of a running container, terminal or command.
SANDBOX_MINUTE_PRICE = env.amount("SANDBOX_MINUTE_PRICE", "0")

# ── Quotas: what one person or one workspace may have ────────────────────────
WORKSPACES_PER_PERSON = env.number("WORKSPACES_PER_PERSON", 10)
KEYS_PER_WORKSPACE = env.number("KEYS_PER_WORKSPACE", 200)
INVITATIONS_PER_WORKSPACE = env.number("INVITATIONS_PER_WORKSPACE", 100)
WEBHOOKS_PER_WORKSPACE = env.number("WEBHOOKS_PER_WORKSPACE", 20)
SCHEDULES_PER_WORKSPACE = env.number("SCHEDULES_PER_WORKSPACE", 1000)
TRIGGERS_PER_WORKSPACE = env.number("TRIGGERS_PER_WORKSPACE", 200)
#: Messages that may wait in one session, and runs that may wait in all sessions of a workspace.
QUEUE_PER_SESSION = env.number("QUEUE_PER_SESSION", 200)
QUEUE_PER_WORKSPACE = env.number("QUEUE_PER_WORKSPACE", 10_000)
#: What the logs, documents and tool calls of a workspace may take in the database. 0: no limit.
WORKSPACE_DATABASE_MB = env.number("WORKSPACE_DATABASE_MB", 10_240)
#: How large the whole database may become. 0: no limit but the reserve of the disk it is on.
DATABASE_LIMIT_MB = env.number("DATABASE_LIMIT_MB", 0)
#: Terminals that a workspace may have open, and how long an unused one stays open.
TERMINALS_PER_WORKSPACE = env.number("TERMINALS_PER_WORKSPACE", 20)
TERMINAL_IDLE_SECONDS = env.seconds("TERMINAL_IDLE_SECONDS", 3600)
#: Commands that the agents of a workspace may run at once, and containers it may have, per machine.
SANDBOXES_PER_WORKSPACE = env.number("SANDBOXES_PER_WORKSPACE", 50)

# ── Identity ─────────────────────────────────────────────────────────────────
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
#: Who may create an account: `open` anyone, `invitation` people with an invitation, `closed` no one.
#: The first account of an installation can always be created.
SIGN_UP = env.choice("SIGN_UP", "invitation", ("open", "invitation", "closed"))
#: Whose workspaces use the model keys of this server's environment.
OPERATOR_KEYS = env.choice("OPERATOR_KEYS", "staff", ("staff", "all", "none"))
#: Whether a chat can be shared by a link that needs no account.
SHARE_LINKS = env.flag("SHARE_LINKS", default=True)
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "home"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30

#: How long a process caches a key's rights. Changes are notified at once; 0 switches the cache off.
KEY_CACHE_SECONDS = env.seconds("KEY_CACHE_SECONDS", 5)

# ── HTTP ─────────────────────────────────────────────────────────────────────
CSRF_FAILURE_VIEW = "core.problems.csrf_failure"
#: The number of proxies in front of this server whose X-Forwarded-For is trusted.
PROXY_COUNT = env.number("PROXY_COUNT", 0)
#: Lets Prometheus read /metrics from another machine.
METRICS_TOKEN = env.text("METRICS_TOKEN")
#: A worker or supervisor without a heartbeat for longer counts as gone.
PULSE_SECONDS = env.seconds("PULSE_SECONDS", 15)
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "EXCLUDE_URL_PREFIXES": (),
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 20 * 1024 * 1024
#: Imports and exports of one workspace that run at once in one web process. Others wait.
TRANSFERS_PER_WORKSPACE = env.number("TRANSFERS_PER_WORKSPACE", 2)
#: Live connections that one key or person may have open to one web process.
SOCKETS_PER_CALLER = env.number("SOCKETS_PER_CALLER", 1000)
#: `purpose=host:port`: what outgoing requests of one purpose may reach although it is not public.
EGRESS_ALLOWED_PRIVATE = env.strings("EGRESS_ALLOWED_PRIVATE")
#: Folders of this machine that repositories may be mounted from.
REPO_ROOTS = env.strings("REPO_ROOTS")

# ── Static files ─────────────────────────────────────────────────────────────
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [ROOT / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # Files are compressed once, when they are collected.
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
#: The build puts a hash of the content into these names, so browsers need not ask again.
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/dist/assets/.+-[\w-]{8}\.(?:js|css|woff2)$"
DJANGO_VITE: dict[str, dict[str, Any]] = {
    "default": {
        "dev_mode": False,
        "manifest_path": ROOT / "static" / "dist" / "manifest.json",
        "static_url_prefix": "dist",
    }
}

# ── Language, time and logging ───────────────────────────────────────────────
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

LOGGING_CONFIG = None
DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = logging.DEBUG
DJANGO_STRUCTLOG_STATUS_4XX_LOG_LEVEL = logging.INFO
logging_config(level=env.text("LOG_LEVEL", "INFO"))

# ── REST and its OpenAPI document ────────────────────────────────────────────
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.authentication.KeyAuthentication",
        "tenants.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.authentication.HasWorkspace"],
    "DEFAULT_RENDERER_CLASSES": ["core.rest.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "core.rest.Negotiation",
    "DEFAULT_PARSER_CLASSES": [
        "core.rest.StrictJSONParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_PAGINATION_CLASS": "core.pagination.NewestFirst",
    "DEFAULT_SCHEMA_CLASS": "core.openapi_names.NamedSchema",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_THROTTLE_CLASSES": ["tenants.authentication.PrincipalThrottle"],
    "EXCEPTION_HANDLER": "core.problems.answer_exception",
    "PAGE_SIZE": 50,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
#: Requests a minute per key or user. The API promises at least fifty a second.
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
    # Several models have a scope or a status.
    "ENUM_NAME_OVERRIDES": {
        "KeyScopeEnum": "tenants.models.ApiKey.Scope",
        "MemoryScopeEnum": "memory.models.MemoryEntry.Scope",
        "ApprovalScopeEnum": "sessions_app.models.Approval.Scope",
        "AnswerEnum": "sessions_app.models.Approval.Decision",
        "DecisionEnum": "tools_app.api.policies.DECISIONS",
        "WorkflowStatusEnum": "orchestrator.models.Workflow.Status",
        "StepStatusEnum": "orchestrator.models.Step.Status",
        "StepKindEnum": "orchestrator.models.Step.Kind",
        "TriggerKindEnum": "orchestrator.models.WorkflowTrigger.Kind",
        "ScheduleKindEnum": "sessions_app.models.Schedule.Kind",
        "OnBusyEnum": "sessions_app.models.Run.OnBusy",
        "EffortEnum": "agents.models.AgentVersion.Effort",
        "NodeStatusEnum": "orchestrator.api.workflows.NODE_STATES",
        "ConsolidationStatusEnum": "memory.models.Consolidation.Status",
        "EventTypeEnum": "sessions_app.models.SessionEvent.Type",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "core.openapi.describe_problems",
    ],
}

# ── Mail ─────────────────────────────────────────────────────────────────────
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if env.text("EMAIL_HOST")
    else "core.mail.PrivateFileBackend"
)
EMAIL_FILE_PATH = env.data_dir() / "mail"
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.number("EMAIL_PORT", 587)
EMAIL_HOST_USER = env.text("EMAIL_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_PASSWORD")
#: A mail server that does not answer must not block the sender.
EMAIL_TIMEOUT = env.number("EMAIL_TIMEOUT", 20)
EMAIL_USE_TLS = env.flag("EMAIL_TLS", default=True)
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "Switchyard <switchyard@localhost>")
#: E-mails that the agents of one workspace may send in an hour.
EMAILS_PER_HOUR = env.number("EMAILS_PER_HOUR", 60)
#: Invitations that one workspace, or one person, may mail in an hour.
INVITATIONS_PER_HOUR = env.number("INVITATIONS_PER_HOUR", 20)

# ── Webhooks and inbox ───────────────────────────────────────────────────────
#: A webhook that has only failed for this long is disabled.
WEBHOOK_GIVE_UP_DAYS = env.number("WEBHOOK_GIVE_UP_DAYS", 3)
WEBHOOK_KEEP_DAYS = env.number("WEBHOOK_KEEP_DAYS", 7)
INBOX_KEEP_DAYS = env.number("INBOX_KEEP_DAYS", 180)

# ── Searching the web ────────────────────────────────────────────────────────
#: brave, serper or searxng. The last one needs a URL instead of a key.
WEB_SEARCH_PROVIDER = env.text("WEB_SEARCH_PROVIDER").lower()
WEB_SEARCH_KEY = env.text("WEB_SEARCH_KEY")
WEB_SEARCH_URL = env.text("WEB_SEARCH_URL")
