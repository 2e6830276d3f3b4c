# make install   the environment in .venv (PYTHON=python3.11 make install chooses the interpreter)
# make bench     pytest bench/, then every mechanism tried on a small model, then the report of both
#                ARGS="--quick" passes options on to pytest, TRY="--runtime rknn" to python -m runtimes --try
#                STORAGE=DIR keeps the results there instead of .benchmarks/BOARD
# make bench-megengine   the same of ONNX Runtime and MegEngine Lite, which is installed first where it is not there,
#                into the user's cache; it needs a Python 3.8 to 3.10, found by name
# make test      the tests;                      ARGS="tests/models" passes options on
# make lint      ruff and mypy

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
BIN    := $(VENV)/bin
TRY    ?=
STORAGE ?=

.PHONY: install bench bench-megengine test lint clean

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

# The report is made also when a configuration failed: its row says so. After Ctrl-C nothing more is tried.
# The exit code is that of the first failure.
bench: $(VENV)/installed
	@$(BIN)/python -m pytest bench/ $(if $(STORAGE),--benchmark-storage=file://$(STORAGE)) $(ARGS); bench=$$?; \
	try=0; report=0; \
	case $$bench in 0|1) $(BIN)/python -m runtimes --try $(if $(STORAGE),--storage $(STORAGE)) $(TRY); try=$$?;; esac; \
	case $$bench in 0|1|2) $(BIN)/python -m reports $(if $(STORAGE),--storage $(STORAGE)); report=$$?;; esac; \
	for code in $$bench $$try $$report; do [ $$code -eq 0 ] || exit $$code; done

bench-megengine: $(VENV)/installed
	@$(BIN)/python -m models megengine install
	@$(MAKE) --no-print-directory bench ARGS="--runtime onnxruntime --runtime megengine_lite $(ARGS)"

test: $(VENV)/installed-dev
	@$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/installed-dev
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache *.egg-info
