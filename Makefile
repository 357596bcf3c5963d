# make demo    rewrites two of the samples, proves the result, builds TensorRT-RTX engines and prints the reports
# make test    ruff, mypy and the tests but for the long ones
# make test-long   the long tests: packages, the site, the notebook, long fuzzing, all random examples
# make start   the wheel installed and run under each Python that setup.cfg promises; one that is missing is an error
# make docs    the documents as a site, in build/site
#
# All need Python 3.10 or newer and a network, and install 800 MB into .venv. PYTHON=python3.12 chooses a Python.

# Some machines set it, and each of the many processes of the tests then compiles surgeon anew: 0.2 s each.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV   := .venv
OUT    := demo-out
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

.PHONY: demo test test-long start check docs samples-console clean

demo: $(VENV)/installed
	$(BIN)/python samples/demo.py $(OUT)

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not long"

test-long: $(VENV)/installed
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "long or hypothesis"

start: $(VENV)/installed
	$(BIN)/python tests/start.py

check: $(VENV)/installed
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python tests/typecheck.py

docs: $(VENV)/installed
	$(BIN)/python docs/site.py build/site-pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Writes the console texts of the samples again. Read every one before it is committed.
samples-console: $(VENV)/installed
	$(BIN)/python -m pytest -q tests/test_samples.py --write-console

# In two steps, so that an interrupted installation is taken up where it stopped.
$(VENV)/created:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 10) and 'Python 3.10 or newer is needed; say which with PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -c "open('$(VENV)/created', 'w').close()"

$(VENV)/installed: $(VENV)/created setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	$(BIN)/python -m pip install --quiet --editable ".[rtx]" || echo "TensorRT-RTX was not installed: macOS and an older glibc have no wheel of it. All that needs it is left out."
	$(BIN)/python -c "open('$(VENV)/installed', 'w').close()"

clean:
	$(PYTHON) -c "import shutil; [shutil.rmtree(d, ignore_errors=True) for d in ('$(VENV)', '$(OUT)', 'build', 'dist')]"
