# syntax=docker/dockerfile:1

FROM python:3.13-slim AS packages
WORKDIR /app
RUN python -m venv /venv
COPY requirements.lock requirements-optional.txt ./
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock \
    && (/venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r requirements-optional.txt || true)

FROM python:3.13-slim
# bubblewrap is the `local` sandbox, git prepares repositories that sessions mount.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 switchyard \
    && install -d -o switchyard -g switchyard /data
COPY --from=packages /venv /venv
COPY . /app
WORKDIR /app
USER switchyard
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=config.settings.production \
    DATA_DIR=/data \
    HOST=0.0.0.0 \
    PORT=8000
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "bin/healthy"]
CMD ["python", "manage.py", "up"]
