# All targets use .venv, which is created on first use from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# Every test worker imports our files: keep Python's bytecode, even if the environment disables it.
export PYTHONDONTWRITEBYTECODE :=
# Do not compile packages when they are installed: most of their modules are never imported.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
PIP := $(BIN)/python $(INSTALL) -c constraints.txt
# The library, the traffic and the paper: three distributions of one repository.
TRAFFIC := -e packages/traffic
ALL := $(TRAFFIC) -e paper

.PHONY: demo test test-all test-slow test-rllib test-oldest test-newest dist nightly check bench docs clean

# The commands of README.md; RUN is the folder of the training run.
RUN := runs/traffic-3x3-factored-incident-0
demo: .venv/installed
	$(BIN)/factorax reproduce search-baselines --budget paper
	$(BIN)/factorax reproduce search-throughput
	$(BIN)/python examples/networks.py
	$(BIN)/factorax train traffic:3x3
	$(BIN)/factorax watch every-20 $(RUN) --out out/traffic.gif
	$(PIP) -e 'packages/traffic[sumo]'
	$(BIN)/factorax evaluate $(RUN) --sim sumo
	$(BIN)/factorax evaluate gap-out --sim sumo
	$(BIN)/factorax report $(RUN) --out out/report.html

# The quick tests, without optional packages.
WORKERS := auto
PYTEST := -m pytest --numprocesses $(WORKERS) --dist loadfile
FAST := -m 'not slow'
test: .venv/installed
	$(BIN)/python $(PYTEST) $(FAST)

# All tests, including slow ones, those of optional packages and those with other versions.
test-all: test test-slow test-rllib test-oldest test-newest

# Files run in the order of tests/conftest.py: the longest first, so that none of them starts last.
test-slow: .venv/installed-extras
	$(BIN)/python $(PYTEST) --no-loadscope-reorder -m 'slow or torch or sb3 or marl or rddl or ev2gym or jaxenvs or sumo or ray or wandb or browser'

test-rllib: .venv-rllib/installed
	.venv-rllib/bin/python -m pytest -m rllib $$(grep -rl --include='*.py' 'mark\.rllib' tests packages/traffic/tests paper/tests)

# Other versions have the library alone, as `pip install .` gives it, and run its own tests: not those of pages, which show
# results with constraints.txt, nor of our own files. A few examples of each property are enough.
OF_VERSIONS := tests src $(addprefix --ignore=tests/,test_mirror.py test_packaging.py) \
	--ignore-glob=tests/test_docs*.py --hypothesis-profile=other-versions

# The lower bounds of pyproject.toml on the oldest Python.
test-oldest: .venv-oldest/installed
	.venv-oldest/bin/python $(PYTEST) $(FAST) $(OF_VERSIONS)

# The newest packages on the newest installed Python.
test-newest: .venv-newest/installed
	@if test -x .venv-newest/bin/python; then \
		.venv-newest/bin/python $(PYTEST) $(FAST) $(OF_VERSIONS); \
	else echo "test-newest: skipped, no Python newer than 3.11 here"; fi

nightly: .venv/installed
	FACTORAX_NIGHTLY=1 $(BIN)/python -m pytest -m nightly

# With optional packages, whose types pyright reads.
check: .venv/installed-extras
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

bench: .venv/installed-bench .venv-sumo-rl/installed
	$(BIN)/python -m benchmarks

docs: .venv/installed-docs
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

.venv/installed-bench: .venv/installed
	$(PIP) -e '.[bench,ray]' -e 'packages/traffic[sumo]'
	touch $@

.venv/installed-extras: .venv/installed-docs
	$(PIP) -e '.[bench,browser,conformance,jax-envs,ray,wandb]' -e 'packages/traffic[sumo]' -e 'paper[ev2gym]'
	touch $@

# For benchmarks/sumo_rl_rate.py and sumo_rl_training.py only: sumo-rl needs an old PettingZoo.
.venv-sumo-rl/installed: Makefile
	$(PYTHON) -m venv .venv-sumo-rl
	.venv-sumo-rl/bin/python $(INSTALL) sumo-rl==1.4.5 pettingzoo==1.24.3 \
		eclipse-sumo==1.28.0 libsumo==1.28.0 traci==1.28.0 sumolib==1.28.0 \
		stable-baselines3==2.9.2 torch==2.13.0 SuperSuit==3.9.3
	touch $@

# RLlib needs an older Gymnasium than the one in constraints.txt.
.venv-rllib/installed: pyproject.toml constraints-rllib.txt
	$(PYTHON) -m venv .venv-rllib
	.venv-rllib/bin/python $(INSTALL) -c constraints-rllib.txt \
		-e '.[rllib]' -e 'packages/traffic[sumo]' -e paper pytest hypothesis
	touch $@

.venv-oldest/installed: pyproject.toml constraints-oldest.txt
	python=$$(.ci/find-python 3.11) && $$python -m venv --clear .venv-oldest
	.venv-oldest/bin/python $(INSTALL) -c constraints-oldest.txt -e '.[test]'
	touch $@

.venv-newest/installed: pyproject.toml constraints-newest.txt
	rm -rf .venv-newest && mkdir .venv-newest
	if python=$$(.ci/find-python 3.14 3.13 3.12); then $$python -m venv .venv-newest \
		&& .venv-newest/bin/python $(INSTALL) -c constraints-newest.txt -e '.[test]'; fi
	touch $@

# Build the source distribution, and a wheel from it, in dist/.
dist: .venv/installed
	rm -rf dist
	$(BIN)/python -m hatchling build --target sdist
	cd dist && tar -xzf factorax-*.tar.gz && cd factorax-*/ && ../../$(BIN)/python -m hatchling build --target wheel --directory ..
	rm -rf dist/factorax-*/

clean:
	rm -rf .venv .venv-newest .venv-oldest .venv-rllib .venv-sumo-rl dist docs/_build docs/_generated out

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'factorax needs Python 3.11 or newer')"
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[dev]' $(ALL)
	touch $@

.venv/installed-docs: .venv/installed
	$(PIP) -e '.[docs]'
	touch $@
