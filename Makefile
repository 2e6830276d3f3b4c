# make install   the environment in .venv (PYTHON=python3.11 make install chooses the interpreter)
# make bench     pytest bench/, then the report; ARGS="--quick" passes options on
#                STORAGE=DIR keeps the results there instead of .benchmarks/BOARD
# make test      the tests;                      ARGS="tests/models" passes options on
# make lint      ruff and mypy

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
BIN    := $(VENV)/bin
STORAGE ?=

.PHONY: install bench test lint clean

install: $(VENV)/installed

# The dependencies are in pyproject.toml: installed again only when it changes.
$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || { \
	  echo "make: $(PYTHON) is no Python 3.9 or later with venv. Install one (Debian: apt install python3 python3-venv)" \
	       "or name one: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

# What lint and the tests need on top.
$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# The report is made also when a configuration failed: its row says so. The exit code is that of the first failure.
bench: $(VENV)/installed
	@$(BIN)/python -m pytest bench/ $(if $(STORAGE),--benchmark-storage=file://$(STORAGE)) $(ARGS); code=$$?; \
	case $$code in 0|1|2) $(BIN)/python -m reports $(if $(STORAGE),--storage $(STORAGE)); report=$$?;; *) report=0;; esac; \
	[ $$code -ne 0 ] && exit $$code; exit $$report

test: $(VENV)/installed-dev
	@$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/installed-dev
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache *.egg-info
