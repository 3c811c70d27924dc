# Every command of the project. `make setup` works on a bare Debian with python3, python3-venv and make.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check --quiet

# The lab's matrices are tiny: more BLAS threads only get in each other's way.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup lint check-rules check-metrics check-dashboards check-deploy test test-sglang demo bench-gateway bench-path bench-detectors lock

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/.ready .venv-router/.ready ## make .venv and .venv-router (again only when a lock changed)

# The stamps are written last, so an interrupted install starts over.
.venv/.locked: requirements/runtime.txt requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "SpecGuard needs Python 3.11 or newer: name one with PYTHON=")'
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "the venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes -r requirements/runtime.txt -r requirements/dev.txt
	@touch $@

.venv/.ready: .venv/.locked pyproject.toml
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv-router/.ready: requirements/router.txt .venv/.locked
	$(PYTHON) -m venv .venv-router
	.venv-router/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/router.txt
	@.venv-router/bin/smg --help | grep -q "Shepherd Model Gateway" || { echo ".venv-router/bin/smg is not the smg router" >&2; exit 1; }
	@touch $@

lint: setup ## format, lint, types, floors
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

check-rules: ## alerts.yaml, its promtool tests, and the routing of the Alertmanager
	@command -v promtool >/dev/null || { echo "promtool is missing: apt-get install prometheus (or put promtool on PATH)" >&2; exit 1; }
	@command -v amtool >/dev/null || { echo "amtool is missing: apt-get install prometheus-alertmanager (or put amtool on PATH)" >&2; exit 1; }
	promtool check rules --lint=all --lint-fatal alerts.yaml
	promtool test rules rules/*.test.yaml
	amtool check-config docker/alertmanager/alertmanager.yaml
	amtool config routes test --config.file docker/alertmanager/alertmanager.yaml --verify.receivers=page severity=critical
	amtool config routes test --config.file docker/alertmanager/alertmanager.yaml --verify.receivers=ticket severity=warning
	promtool check config --syntax-only docker/prometheus/prometheus.yaml

check-metrics: setup ## what the sidecar exposes, in the eyes of promtool
	.venv/bin/python -c 'import sys; from service.edges.metrics import Metrics; \
	  sys.stdout.buffer.write(Metrics(routes=("default",), detectors=("loop",)).exposition())' | promtool check metrics

check-dashboards: setup ## lab, router, sidecar, Prometheus and Alertmanager together: panels have series, alerts fire
	.venv/bin/python -m pytest -s tests/observed/live_*.py $(ARGS)

# Linters of images and manifests, in an environment of their own. Without kubectl the base is not built.
.venv-deploy/.ready: requirements/deploy.txt
	$(PYTHON) -m venv .venv-deploy
	.venv-deploy/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/deploy.txt
	@touch $@

check-deploy: .venv-deploy/.ready ## hadolint, the compose specification's schema, Kubernetes' own schemas
	.venv-deploy/bin/hadolint docker/*Dockerfile
	.venv-deploy/bin/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml docker/compose.gpu.yaml docker/gpu-pd/compose.yaml
	.venv-deploy/bin/kubernetes-validate --strict --kubernetes-version 1.33 docker/k8s/replay-job.yaml docker/k8s/base/gateway.yaml docker/k8s/beside/networkpolicy.yaml
	@if command -v kubectl >/dev/null; then kubectl kustomize docker/k8s/base > .venv-deploy/base.yaml && \
	  .venv-deploy/bin/kubernetes-validate --strict --no-warn --kubernetes-version 1.33 .venv-deploy/base.yaml; \
	  else echo "check-deploy: kubectl is missing: the base was not built, its parts were checked"; fi

test: check-rules setup lint check-metrics ## every check: rules, lint, metrics, then pytest
	.venv/bin/python -m pytest $(ARGS)

# The engine is kept from run to run; our own package is put into it anew each time.
SGLANG_DIR ?= .sglang
test-sglang: setup ## the suite against the real SGLang on CPU: opt-in, 4 GB and some minutes the first time
	tests/fixtures/sglang-cpu/setup.sh $(SGLANG_DIR)
	$(SGLANG_DIR)/venv/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --force-reinstall .
	SPECGUARD_SGLANG_DIR=$(abspath $(SGLANG_DIR)) .venv/bin/python -m pytest tests/sglang/live_*.py $(ARGS)

bench-lab: setup ## how much of its own matrix multiplications' speed the lab's model reaches
	.venv/bin/python -m replay.bench.lab $(ARGS)

# torch with CUDA is no dependency of ours: name a Python that has it with GPU_PYTHON=.
GPU_PYTHON ?= $(PYTHON)
gpu-race: ## read-before-ready on a CUDA device, event out and in; without one it says so
	@$(GPU_PYTHON) -c 'import numpy' 2>/dev/null || { echo "gpu-race: not run: $(GPU_PYTHON) has no numpy"; exit 0; }; \
	  $(GPU_PYTHON) -m replay.lab.gpu_race $(ARGS)

# An extra: 46 MB, and a Debian library that only root can install. It stays in .venv until `make setup` makes it anew.
lab-mooncake: setup ## install the lab's Mooncake transfer engine and try the race over TCP
	@ldconfig -p | grep -q 'libibverbs\.so\.1' || { echo "libibverbs.so.1 is missing: apt-get install libibverbs1" >&2; exit 1; }
	$(PIP) install --require-hashes -r requirements/lab-mooncake.txt
	.venv/bin/python -m pytest tests/replay/lab/live_mooncake.py $(ARGS)

# An extra: 240 MB. The test starts a cluster of its own on this machine.
replay-ray: setup ## install Ray and send a plan's shards from a local cluster
	$(PIP) install --require-hashes -r requirements/ray.txt
	.venv/bin/python -m pytest tests/replay/live_ray.py $(ARGS)

demo: setup ## run the guarded lab once and print the score: make demo ARGS="--json"
	.venv/bin/specguard demo $(ARGS)

bench-gateway: setup ## CPU a streamed chunk beside smg and a bare relay, and the time a chunk spends inside
	.venv/bin/python -m replay.bench.gateway $(ARGS)

bench-path: setup ## CPU of a chunk's path inside the core, part by part: feed, look, each detector
	.venv/bin/python -m replay.bench.path $(ARGS)

bench-detectors: setup ## delays, recall, false alarms and cost of the detectors, into rules/quality.json
	.venv/bin/python -m replay.bench.detectors $(ARGS)

bench-joint: setup ## all detectors together on the lab's faults, into rules/quality.json
	.venv/bin/python -m replay.bench.joint $(ARGS)

bench-falsealarm: setup ## clean requests that are taken for corrupted: 2000, or ARGS="--requests 300000" for a night
	.venv/bin/python -m replay.bench.falsealarm $(ARGS)

# What bench-replay is measured against, each in an environment of its own; only SGLang's one extension is used.
.venv-bench-%/.ready: requirements/bench-%.txt .venv/.locked
	$(PYTHON) -m venv .venv-bench-$*
	.venv-bench-$*/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes \
	  -r requirements/bench-$*.txt
	@touch $@

bench-crosstalk: setup ## whole-slot swaps: whose words were recognised in another's answer
	.venv/bin/python -m replay.bench.crosstalk $(or $(ARGS),--clean 0 --swaps 400)

bench-replay: setup .venv-bench-sglang/.ready .venv-bench-aiperf/.ready .venv-bench-guidellm/.ready ## CPU a request of the load client beside three others (7 GB the first time)
	.venv/bin/python -m replay.bench.client $(ARGS)

lock: ## compile requirements/*.txt anew
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip --disable-pip-version-check --quiet install "uv>=0.13,<1"
	for name in runtime dev router deploy lab-mooncake ray bench-aiperf bench-guidellm "bench-sglang --no-deps"; do \
	  set -- $$name; .venv-lock/bin/uv pip compile $$2 --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-index-url --no-emit-find-links requirements/$$1.in -o requirements/$$1.txt || exit 1; \
	done
