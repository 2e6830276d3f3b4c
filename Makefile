# `make help` prints the lines that begin with `##`.

PYTHON  ?= python3
VENV    ?= .venv
ARGS    ?=
STORAGE ?=
UV      ?= uv
BIN     := $(VENV)/bin

.PHONY: help install bench bench-llm bench-megengine bench-runtimes quick types lint test test-all wheel benchmarks docs pins clean

## To measure
##   make bench           install, run pytest bench/, write the report; ARGS="--quick" is passed on to pytest,
##                        STORAGE=DIR keeps the results there instead of in .benchmarks/BOARD
##   make bench-runtimes  the same with every runtime that pip installs: ONNX Runtime, ncnn, MNN, LiteRT, OpenVINO
##   make bench-llm       what conversations with language models cost, with llama.cpp (built once: 6 minutes on two cores),
##                        ONNX Runtime GenAI and OpenVINO GenAI
##   make bench-megengine the same with ONNX Runtime and MegEngine Lite; needs python3.8, 3.9 or 3.10 in the path
##
## To change the project (CONTRIBUTING.md has the time that each takes)
##   make install         the environment .venv with all extras; PYTHON=python3.11 names the interpreter
##   make quick           the tests that start no process
##   make types           mypy
##   make lint            ruff check, ruff format --check, codespell, mypy
##   make test            all tests except those marked slow; ARGS="tests/storage -k prune" is passed on to pytest
##   make test-all        all tests, as CI runs them
##   make wheel           build the wheel, use it alone, compare what it measures with the checkout;
##                        ARGS="--python python3.9 --lowest" names the interpreter and takes the lowest versions
##   make benchmarks      a few seconds of every script in benchmarks/; ARGS="far_speed" names some
##   make docs            the site of docs/, as out/site/index.html; its search needs a server:
##                        python3 -m http.server --directory out/site
##   make pins            renew the pinned versions and hashes of what converters install; needs uv
##   make clean           remove .venv, out/ and all that was built
help:
	@sed -n 's/^## \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/installed

# The dependencies are in pyproject.toml: installed again only when it changes.
INSTALL = PYTHON="$(PYTHON)" UV="$(UV)" tools/install.sh $(VENV)

$(VENV)/installed: pyproject.toml
	@$(INSTALL) all
	@touch $@

# Lint and the tests need the extra dev as well.
$(VENV)/installed-dev: pyproject.toml
	@$(INSTALL) all,dev
	@touch $(VENV)/installed $@

$(VENV)/installed-docs: pyproject.toml
	@$(INSTALL) all,docs
	@touch $(VENV)/installed $@

# CI has every runtime that has wheels, too.
$(VENV)/installed-ci: pyproject.toml
	@$(INSTALL) all,dev,docs,runtimes,ort-genai,openvino-genai
	@touch $(VENV)/installed $(VENV)/installed-dev $(VENV)/installed-docs $@

# The report is written also if a configuration failed, which is a row of it, and after Ctrl-C.
# The exit code is that of the first failure.
bench: $(VENV)/installed
	@$(BIN)/python -m pytest bench/ $(if $(STORAGE),--benchmark-storage=file://$(STORAGE)) $(ARGS); bench=$$?; \
	report=0; \
	case $$bench in 0|1|2) $(BIN)/reusebench report $(if $(STORAGE),--storage $(STORAGE)); report=$$?;; esac; \
	[ $$bench -eq 0 ] || exit $$bench; exit $$report

bench-megengine: $(VENV)/installed
	@$(BIN)/reusebench models install megengine
	@$(MAKE) --no-print-directory bench ARGS="--runtime onnxruntime --runtime megengine_lite $(ARGS)"

bench-llm: $(VENV)/installed
	@tools/llama.sh $(VENV)
	@$(INSTALL) all,llm
	@$(MAKE) --no-print-directory bench ARGS="-k sessions $(ARGS)"

bench-runtimes: $(VENV)/installed
	@$(INSTALL) all,runtimes
	@$(BIN)/reusebench models install pnnx
	@$(BIN)/reusebench models install onnx2tf
	@$(MAKE) --no-print-directory bench

# One worker more than CPUs: while some wait for processes that they have started, others work. If one crashes, the run
# ends: pytest-xdist may wait forever for the tests of the one that replaces it.
WORKERS ?= $(shell expr $$(nproc) + 1)
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test: $(VENV)/installed-dev
	@$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/installed-dev
	@$(PYTEST) $(ARGS)

quick: $(VENV)/installed-dev
	@$(PYTEST) -m "not slow and not process" $(ARGS)

types: $(VENV)/installed-dev
	@$(BIN)/python -m mypy

lint: $(VENV)/installed-dev
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/codespell
	@$(MAKE) --no-print-directory types

wheel:
	@$(PYTHON) .ci/check_wheel.py $(ARGS)

benchmarks: $(VENV)/installed-dev
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

# For every Python and machine at once; each with its oldest Python. Packages that require too much are listed
# without their requirements.
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
	$(PIN) --python-version 3.13 --no-deps src/reusebench/targets/vboard/rocket.in -o src/reusebench/targets/vboard/rocket.txt

clean:
	rm -rf $(VENV) out build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache src/*.egg-info
