"""What is the same however Switchyard runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from csp.constants import NONCE, NONE, SELF

from config import env
from config.embedded import socket_dir
from config.logging import logging_config
from config.settings.outgoing import *
from config.settings.rest import *

ROOT = env.ROOT
DATA_DIR: Path = env.data_dir()
HOST = env.text("HOST", "127.0.0.1")
PORT = env.number("PORT", 8000)
PUBLIC_URL = env.text("PUBLIC_URL", f"http://{HOST}:{PORT}")

INSTALLED_APPS = [
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
    "tenants",
    "agents",
    "tools_app",
    "memory",
    "sessions_app",
    "orchestrator",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.request_ids.RequestIdMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.slashes.SlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "tenants.middleware.PrincipalMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.problems.ProblemMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
    # The innermost is synchronous, so the whole chain runs in one thread without hopping.
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
                "tenants.pages.context.frame",
            ],
        },
    }
]

# ── Database ─────────────────────────────────────────────────────────────────
DATABASE_URL = env.text("DATABASE_URL")
EMBEDDED = not DATABASE_URL
#: Connections one process may hold. Runs wait for models without one, so few are enough.
DATABASE_POOL = env.number("DATABASE_POOL", 8)


def _database() -> dict[str, Any]:
    if DATABASE_URL:
        address = env.database_address(DATABASE_URL)
        where = {
            "NAME": address.name,
            "USER": address.user,
            "PASSWORD": address.password,
            "HOST": address.host,
            "PORT": address.port,
        }
        options: dict[str, Any] = dict(address.options)
    else:
        where = {"NAME": "switchyard", "USER": "postgres", "HOST": str(socket_dir(DATA_DIR))}
        options = {}
    options |= {
        "pool": {"min_size": 1, "max_size": DATABASE_POOL, "timeout": 20},
        "prepare_threshold": 1,
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        **where,
        "OPTIONS": options,
        # One more round trip per borrowed connection, and a restart of PostgreSQL goes unnoticed.
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
        else {"BACKEND": "config.pg_layer.PostgresChannelLayer"}
    )
}

# ── Workers ──────────────────────────────────────────────────────────────────
WORKERS = env.number("WORKERS", 2)
#: Runs that one worker process hosts at once; they mostly wait for a model.
LANES_PER_WORKER = env.number("LANES_PER_WORKER", 600)
LEASE_SECONDS = env.seconds("LEASE_SECONDS", 30)
HEARTBEAT_SECONDS = env.seconds("HEARTBEAT_SECONDS", 5)
#: A run that takes longer is stopped, even while its worker is well.
RUN_DEADLINE_SECONDS = env.seconds("RUN_DEADLINE_SECONDS", 3600)
#: A run that was lost this often without progress is dead.
RUN_MAX_ATTEMPTS = env.number("RUN_MAX_ATTEMPTS", 5)
#: Workflows that run at once; those that wait do not count.
WORKFLOWS_PER_WORKER = env.number("WORKFLOWS_PER_WORKER", 64)
WORKFLOWS_PER_WORKSPACE = env.number("WORKFLOWS_PER_WORKSPACE", 100)
WORKFLOW_MAX_RECOVERIES = env.number("WORKFLOW_MAX_RECOVERIES", 20)
WORKFLOW_RETENTION_DAYS = env.number("WORKFLOW_RETENTION_DAYS", 90)
SUPERVISOR_SECONDS = env.seconds("SUPERVISOR_SECONDS", 1)

# US dollars that a new workspace starts with, and below which its owners are told.
STARTING_CREDITS = env.amount("STARTING_CREDITS", "10")
LOW_CREDITS = env.amount("LOW_CREDITS", "1")
#: A question to people that nobody has answered by then is taken as a no.
APPROVAL_SECONDS = env.seconds("APPROVAL_SECONDS", 7 * 24 * 3600)
Q_CLUSTER: dict[str, Any] = {
    "name": "lanes",
    "broker_class": "sessions_app.broker.NotifyBroker",
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
#: Where a Docker-compatible engine listens; empty means the usual places, or a Podman of our own.
CONTAINER_SOCKET = env.text("CONTAINER_SOCKET")
CONTAINER_IMAGE = env.text("CONTAINER_IMAGE", "switchyard/base")
#: A container in which nothing ran for this long is taken away; its files stay.
SANDBOX_IDLE_SECONDS = env.seconds("SANDBOX_IDLE_SECONDS", 900)
#: US dollars for each minute that a container or a terminal runs, or that a command takes.
SANDBOX_MINUTE_PRICE = env.amount("SANDBOX_MINUTE_PRICE", "0")

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
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "home"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30

# ── HTTP ─────────────────────────────────────────────────────────────────────
CSRF_FAILURE_VIEW = "config.error_views.csrf_failure"
#: Proxies in front of this server whose X-Forwarded-For is believed.
PROXY_COUNT = env.number("PROXY_COUNT", 0)
#: With it Prometheus may read /metrics from another machine.
METRICS_TOKEN = env.text("METRICS_TOKEN")
#: A worker or supervisor that was silent for longer counts as gone.
PULSE_SECONDS = env.seconds("PULSE_SECONDS", 15)
#: Terminals that a workspace may have open, and how long one lives that nobody watches or uses.
TERMINALS_PER_WORKSPACE = env.number("TERMINALS_PER_WORKSPACE", 20)
TERMINAL_IDLE_SECONDS = env.seconds("TERMINAL_IDLE_SECONDS", 3600)
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
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
#: `host:port` pairs that outgoing requests may reach although they are not public.
EGRESS_ALLOWED_PRIVATE = env.words("EGRESS_ALLOWED_PRIVATE")
#: Folders of this machine that repositories may be mounted from.
REPO_ROOTS = env.words("REPO_ROOTS")

# ── Static files ─────────────────────────────────────────────────────────────
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [ROOT / "static"]
DJANGO_VITE = {
    "default": {
        "dev_mode": False,
        "manifest_path": ROOT / "static" / "dist" / "manifest.json",
        "static_url_prefix": "dist",
    }
}

# ── Words and times ──────────────────────────────────────────────────────────
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

LOGGING_CONFIG = None
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True  # config.request_ids has looked at it
DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = logging.DEBUG
DJANGO_STRUCTLOG_STATUS_4XX_LOG_LEVEL = logging.INFO
logging_config(level=env.text("LOG_LEVEL", "INFO"))
