# SGLang's own image with SpecGuard's probe in it, for compose.gpu.yaml: docker build -f docker/engine.Dockerfile ..
# The probe needs the standard library only, so nothing else of the engine's environment changes. Without
# SPECGUARD_PROBE in its environment the engine runs as if it were not there. Never built by its authors.
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/runtime.txt requirements/dev.txt requirements/
RUN python -m venv /build \
 && /build/bin/pip install --require-hashes -r requirements/runtime.txt -r requirements/dev.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
COPY replay replay
COPY rules/sets rules/sets
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM lmsysorg/sglang:v0.5.23
COPY --from=build /wheels /wheels
RUN python3 -m pip install --no-cache-dir --no-deps /wheels/specguard-*.whl
