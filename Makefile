# make install   the environment in .venv, with all extras (PYTHON=python3.11 make install chooses the interpreter)
# make bench     pytest bench/, then the report of what is stored
#                ARGS="--quick" passes options on to pytest
#                STORAGE=DIR keeps the results there instead of .benchmarks/BOARD
# make bench-megengine   the same of ONNX Runtime and MegEngine Lite, which is installed first where it is not there,
#                into the user's cache; it needs a python3.8, python3.9 or python3.10 in the path
# make bench-runtimes    the same of every runtime that pip installs: ONNX Runtime, ncnn, MNN, LiteRT and OpenVINO, with
#                what makes their model files
# make test      the tests but those that need many seconds;   ARGS="tests/models" passes options on
# make test-all  all of them, as CI runs them
# make quick     the tests that start no process
# make lint      ruff and mypy
# make wheel     builds sdist and wheel, uses the wheel alone in a fresh environment and an empty folder, and compares
#                what it measures with the checkout; ARGS="--python python3.9 --lowest" chooses the interpreter, and the
#                lowest versions of what is required. Nothing has to be installed for it
# make benchmarks    a few seconds of every script in benchmarks/, which show that it works;
#                ARGS="far_speed" names those to run
# make pins      the versions and hashes of what is installed from package registries beside the project's own
#                requirements, again, from the *.in files; UV=PATH names uv, which is no requirement of the project

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
BIN    := $(VENV)/bin
STORAGE ?=

UV     ?= uv

.PHONY: install bench bench-megengine bench-runtimes test test-all quick lint wheel benchmarks pins clean

install: $(VENV)/installed

# The dependencies are in pyproject.toml: installed again only when it changes.
INSTALL = PYTHON="$(PYTHON)" UV="$(UV)" tools/install.sh $(VENV)

$(VENV)/installed: pyproject.toml
	@$(INSTALL) all
	@touch $@

# What lint and the tests need on top.
$(VENV)/installed-dev: pyproject.toml
	@$(INSTALL) all,dev
	@touch $(VENV)/installed $@

# And every runtime that pip installs, as CI has them.
$(VENV)/installed-ci: pyproject.toml
	@$(INSTALL) all,dev,runtimes
	@touch $(VENV)/installed $(VENV)/installed-dev $@

# The report is made also when a configuration failed, which is a row of it, and after Ctrl-C.
# The exit code is that of the first failure.
bench: $(VENV)/installed
	@$(BIN)/python -m pytest bench/ $(if $(STORAGE),--benchmark-storage=file://$(STORAGE)) $(ARGS); bench=$$?; \
	report=0; \
	case $$bench in 0|1|2) $(BIN)/reusebench report $(if $(STORAGE),--storage $(STORAGE)); report=$$?;; esac; \
	[ $$bench -eq 0 ] || exit $$bench; exit $$report

bench-megengine: $(VENV)/installed
	@$(BIN)/reusebench models install megengine
	@$(MAKE) --no-print-directory bench ARGS="--runtime onnxruntime --runtime megengine_lite $(ARGS)"

bench-runtimes: $(VENV)/installed
	@$(INSTALL) all,runtimes
	@$(BIN)/reusebench models install pnnx
	@$(BIN)/reusebench models install onnx2tf
	@$(MAKE) --no-print-directory bench

# One worker more than CPUs: while some wait for what they have started, others work.
WORKERS ?= $(shell expr $$(nproc) + 1)
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(VENV)/installed-dev
	@$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/installed-dev
	@$(PYTEST) $(ARGS)

quick: $(VENV)/installed-dev
	@$(PYTEST) -m "not slow and not process" $(ARGS)

lint: $(VENV)/installed-dev
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

wheel:
	@$(PYTHON) .ci/check_wheel.py $(ARGS)

benchmarks: $(VENV)/installed-dev
	@$(BIN)/python -m benchmarks $(ARGS)

# For every Python and machine at once; of each the oldest Python. What asks for too much is listed without its requirements.
MODELS := src/reusebench/models
PIN := $(UV) pip compile --quiet --upgrade --universal --generate-hashes --no-annotate \
       --custom-compile-command 'make pins' --only-binary :all:

pins:
	$(PIN) --python-version 3.8 $(MODELS)/rknn/pip.in -o $(MODELS)/rknn/pip.txt
	$(PIN) --python-version 3.8 $(MODELS)/rknn/requirements.in -o $(MODELS)/rknn/requirements.txt
	$(PIN) --python-version 3.8 --no-deps $(MODELS)/rknn/library.in -o $(MODELS)/rknn/library.txt
	$(PIN) --python-version 3.8 $(MODELS)/megengine/requirements.in -o $(MODELS)/megengine/requirements.txt
	$(PIN) --python-version 3.8 --no-deps --no-binary mprop $(MODELS)/megengine/library.in -o $(MODELS)/megengine/library.txt
	$(PIN) --python-version 3.10 --no-deps $(MODELS)/litert/requirements.in -o $(MODELS)/litert/requirements.txt
	$(PIN) --python-version 3.12 --no-deps $(MODELS)/litert/library.in -o $(MODELS)/litert/library.txt
	$(PIN) --python-version 3.9 --no-deps $(MODELS)/ncnn/requirements.in -o $(MODELS)/ncnn/requirements.txt
	$(PIN) --python-version 3.8 --no-deps src/reusebench/targets/ziglang.in -o src/reusebench/targets/ziglang.txt

clean:
	rm -rf $(VENV) out build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache src/*.egg-info
