# Each target sets up what it needs, on a machine with Java 17+ and the Python that pyproject.toml requires.
# All that is made stays in the tree: .venv, .cache and the tools' own caches.

VENV = .venv
RUN = $(VENV)/bin/python -m
PYTHONS = python3 python3.14 python3.13 python3.12 python3.11
comma = ,
OLDEST := 3.$(shell sed -n 's/^requires-python = ">=3\.\([0-9]*\)"/\1/p' pyproject.toml)

export MIRROR_CACHE = $(CURDIR)/.cache
# PySpark would leave half a gigabyte in the home directory; PIP_NO_CACHE_DIR=0 in the environment keeps pip's cache.
PIP_NO_CACHE_DIR ?= 1
export PIP_NO_CACHE_DIR

# Sets $python to the first that is new enough and can make a virtual environment, or says what is missing.
FIND_PYTHON = \
	python=; missing="no Python $(OLDEST) or newer: install it (Debian/Ubuntu: apt-get install python3 python3-venv; macOS: brew install python)"; \
	for each in $(PYTHONS); do \
		$$each -c 'import sys; sys.exit(sys.version_info < ($(subst .,$(comma),$(OLDEST))))' 2>/dev/null || continue; \
		if $$each -c 'import ensurepip, venv' 2>/dev/null; then python=$$each; break; fi; \
		missing="$$each can't make virtual environments: install its venv module (Debian/Ubuntu: apt-get install $$each-venv)"; \
	done; \
	[ -n "$$python" ] || { echo "$$missing" >&2; exit 1; }

.PHONY: help demo test jars tools prepare unit kafka-image image-test kube-test node-test bench chaos lint docs dist committed release java
.NOTPARALLEL:

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

demo: java $(VENV)/ready ## two local clusters, and records copied between them before your eyes
	@$(RUN) mirror.demo.kafka_jars kafka_2.13
	@$(RUN) mirror.demo.prepare
	@$(RUN) mirror.spark.prepare
	@$(VENV)/bin/mirror demo

test: jars tools prepare ## the tests; ARGS=--slow: all, as in CI; ARGS="--slow --both": on both data paths; ARGS="-k name -x" goes to pytest
	@echo "make test leaves out the slow tests, and takes less than 50 minutes; the unit tests alone (ARGS=tests/unit) take about five; all (ARGS=--slow), as in CI, more than an hour" >&2
	@$(RUN) pytest $(ARGS)

# Parts of `test`, which .ci/run runs beside other targets.
# Kafka's jars are fetched with the Ivy that PySpark brings.
jars: java $(VENV)/ready
	@$(RUN) mirror.demo.kafka_jars kafka_2.13 connect-mirror kafka-tools kafka-storage-test kafka_2.13:3.9.1 kafka_2.13:3.3.2

tools: $(VENV)/ready
	@$(RUN) tests.harness.helm >/dev/null
	@$(RUN) tests.harness.workflows

prepare: $(VENV)/ready
	@$(RUN) mirror.demo.prepare
	@$(RUN) mirror.spark.prepare

unit: $(VENV)/ready
	@$(RUN) pytest tests/unit

kafka-image: java $(VENV)/ready ## a stand-in for the image apache/kafka, for the tests in containers where none can be pulled
	@$(RUN) mirror.demo.kafka_jars kafka_2.13
	@$(RUN) tests.images.kafka

image-test: java $(VENV)/ready ## mirror's own image, built and tried on real brokers; the first build takes about five minutes
	@$(RUN) mirror.demo.kafka_jars kafka_2.13
	@$(RUN) mirror.demo.prepare
	@tests/images/engine.sh sh -c 'tests/images/build.sh mirror-test && $(RUN) tests.images.try_image mirror-test'

kube-test: java $(VENV)/ready ## the chart and Spark's driver on a real API server of Kubernetes; its first build takes ten minutes of CPU
	@$(RUN) tests.harness.helm >/dev/null
	@$(RUN) tests.kube.programs >/dev/null
	@$(RUN) mirror.spark.prepare
	@$(RUN) pytest tests/kube/try_chart.py tests/kube/try_driver.py $(ARGS)

node-test: java $(VENV)/ready ## the chart on a real node of Kubernetes, with mirror's image; as root; its first build takes twenty minutes of CPU
	@[ "$$(id -u)" = 0 ] || { echo "a node needs root: sudo make node-test" >&2; exit 1; }
	@$(RUN) tests.harness.helm >/dev/null
	@$(RUN) tests.kube.programs node >/dev/null
	@$(RUN) mirror.demo.kafka_jars kafka_2.13
	@$(RUN) mirror.demo.prepare
	@tests/images/engine.sh tests/kube/images.sh "$(MIRROR_CACHE)/node-images.tar"
	@$(RUN) pytest tests/kube/try_node.py $(ARGS)

bench: java $(VENV)/ready ## mirror beside MirrorMaker 2 on this machine: some hours, nothing else should run; ARGS="--help" tells of parts
	@$(RUN) pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@$(RUN) mirror.demo.kafka_jars kafka_2.13 connect-mirror
	@$(RUN) mirror.spark.prepare
	@$(RUN) tests.bench $(ARGS)

chaos: java $(VENV)/ready ## every fault, round after round; ARGS="--rounds 20 --random 200 --minutes 60" and more, see --help
	@$(RUN) mirror.demo.kafka_jars kafka_2.13
	@$(RUN) mirror.demo.prepare
	@$(RUN) mirror.spark.prepare
	@$(RUN) tests.chaos $(ARGS)

lint: $(VENV)/ready ## ruff, mypy, and the law of imports; the same before each commit: .venv/bin/pre-commit install
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/ready ## the documentation as a site, in build/site, and its committed tables; fails on any warning
	@$(VENV)/bin/python docs/reference.py
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --strict

dist: $(VENV)/ready ## sdist and wheel of the last commit, in dist: the same bytes on every machine whose Python has the same zlib
	@rm -rf dist
	@$(VENV)/bin/python deploy/release/dist.py dist

# All but the sdist and the wheel is made of the files as they are.
committed:
	@changed=$$(git status --porcelain) && [ -z "$$changed" ] || { echo "a release is made of a commit, and these files differ from it:" >&2; echo "$$changed" >&2; exit 1; }

release: committed dist ## what a release consists of, in dist: those, the chart, alerts, dashboard, a bill of materials, and sums; IMAGE=registry/name: the image of the chart
	@helm=$$($(RUN) tests.harness.helm) && deploy/release/chart.sh $$helm dist
	@cp deploy/prometheus/alerts.yaml dist/mirror-alerts.yaml
	@cp deploy/grafana/mirror.json dist/mirror-dashboard.json
	@$(VENV)/bin/python -m venv --clear .cache/sbom
	@.cache/sbom/bin/pip install --quiet --require-hashes --only-binary :all: -r requirements-sbom.txt
	@.cache/sbom/bin/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml --output-reproducible \
		--spec-version 1.6 --output-file dist/sbom.cdx.json
	@cd dist && sha256sum -- *.* >SHA256SUMS

# Before anything is downloaded.
java:
	@$(FIND_PYTHON); $$python -m mirror.spark.java

$(VENV)/ready: pyproject.toml
	@$(FIND_PYTHON); $(RUN) pip --version >/dev/null 2>&1 || $$python -m venv --clear $(VENV)
	@echo "installing into $(VENV), once: PySpark alone is 450 MB, this takes some minutes" >&2
	@$(RUN) pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@
