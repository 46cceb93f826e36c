# Everything goes into .venv; no root, no system ffmpeg, no database server.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INPUT ?=
WATCH ?=
OUTPUT ?= output
YES ?=
RECURSIVE ?=

.PHONY: install demo process dev test coverage chaos chaos-slice check newest-dagster bench docs lock clean distclean

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: install
	$(BIN)/content-ai demo

process: install
	@test -n "$(INPUT)" || { echo "usage: make process INPUT=folder [OUTPUT=folder] [RECURSIVE=1]"; exit 2; }
	$(BIN)/content-ai process --input "$(INPUT)" --output "$(OUTPUT)" $(if $(RECURSIVE),--recursive)

dev: install
	$(BIN)/content-ai dev $(if $(WATCH),--watch "$(WATCH)")

test: install
	$(BIN)/python -m pytest

# Shown, not required: what the tests ran of the package, in this process and in its children.
coverage: install
	$(BIN)/python -m pytest --cov --cov-report=term --cov-report=html

CHAOS_TESTS := content_pipeline_tests/properties content_pipeline_tests/conformance \
	content_pipeline_tests/acceptance/test_kill_points.py content_pipeline_tests/acceptance/test_random_kills.py \
	content_pipeline_tests/acceptance/test_daemon.py \
	content_pipeline_tests/acceptance/test_damaged_recordings.py content_pipeline_tests/unit/media/test_beneath.py \
	content_pipeline_tests/integration/test_launcher.py \
	content_pipeline_tests/integration/test_rq.py content_pipeline_tests/acceptance/test_rq_chaos.py \
	content_pipeline_tests/acceptance/test_rq_hosts.py

# The same tests with more examples, jobs and processes; takes long.
chaos: install
	CHAOS=full $(BIN)/python -m pytest $(CHAOS_TESTS)

# A few of them, in the same way: about a minute, in every CI run.
chaos-slice: install
	CHAOS=slice $(BIN)/python -m pytest -m chaos_slice $(CHAOS_TESTS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

# The canaries and the launcher's tests with the newest patch release of Dagster; nothing of it stays here.
newest-dagster:
	PYTHON=$(PYTHON) .ci/newest-dagster

docs: install
	$(BIN)/python -m content_pipeline.cli.reference > docs/reference.md

bench: install
	$(BIN)/python -m bench

# Resolve the newest versions that pyproject.toml allows.
lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group dev --no-emit-index-url --no-header \
		--no-annotate --output-file requirements.lock pyproject.toml

# Build products only: what `make install` and the tools made. Recordings, montages and the state folder stay.
clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What was made from your recordings goes too: montages, the state folder (manifest, Dagster's records, cache), the demo.
distclean:
	@found=""; for folder in .content-ai output demo; do test ! -e "$$folder" || found="$$found $$folder"; done; \
	if test -n "$$found"; then \
		echo "This deletes montages and the record of all work done here:"; du -sh $$found; \
		if test "$(YES)" = 1; then answer=yes; \
		elif test -t 0; then printf "Type yes to delete: "; read answer; \
		else echo "Nothing was deleted: there is no terminal to ask. Use: make distclean YES=1"; exit 2; fi; \
		if test "$$answer" = yes; then rm -rf $$found; else echo "Nothing was deleted."; exit 1; fi; \
	fi
	$(MAKE) clean
