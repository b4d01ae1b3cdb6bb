# Everything happens in .venv, made on first use from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-ray test-rllib nightly check bench docs clean

# The commands of README.md; RUN is where its training goes.
RUN := runs/traffic-3x3-factored-incident-0
demo: .venv/installed
	$(BIN)/factorax reproduce search-baselines --budget paper
	$(BIN)/factorax reproduce search-throughput
	$(BIN)/python examples/networks.py
	$(BIN)/factorax train traffic:3x3
	$(BIN)/factorax watch every-20 $(RUN) --out out/traffic.gif
	$(PIP) -e '.[sumo]'
	$(BIN)/factorax evaluate $(RUN) --sim sumo
	$(BIN)/factorax evaluate gap-out --sim sumo

test: .venv/installed
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

test-ray: .venv/installed
	$(PIP) -e '.[ray]'
	$(BIN)/python -m pytest -m ray tests

test-rllib: .venv-rllib/installed
	.venv-rllib/bin/python -m pytest -m rllib tests

nightly: .venv/installed
	FACTORAX_NIGHTLY=1 $(BIN)/python -m pytest -m nightly

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

bench: .venv/installed-bench .venv-sumo-rl/installed
	$(BIN)/python -m benchmarks

docs: .venv/installed-docs
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

.venv/installed-bench: .venv/installed
	$(PIP) -e '.[bench,ray,sumo]'
	touch $@

# Of benchmarks/sumo_rl_rate.py and sumo_rl_training.py only: sumo-rl needs an old PettingZoo.
.venv-sumo-rl/installed: Makefile
	$(PYTHON) -m venv .venv-sumo-rl
	.venv-sumo-rl/bin/python -m pip install --quiet --disable-pip-version-check sumo-rl==1.4.5 pettingzoo==1.24.3 \
		eclipse-sumo==1.28.0 libsumo==1.28.0 traci==1.28.0 sumolib==1.28.0 \
		stable-baselines3==2.9.2 torch==2.13.0 SuperSuit==3.9.3
	touch $@

# RLlib wants a Gymnasium of its own: an older one than that of constraints.txt.
.venv-rllib/installed: pyproject.toml constraints-rllib.txt
	$(PYTHON) -m venv .venv-rllib
	.venv-rllib/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-rllib.txt \
		-e '.[rllib,sumo]' pytest hypothesis
	touch $@

clean:
	rm -rf .venv .venv-rllib .venv-sumo-rl docs/_build docs/_generated out

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'factorax needs Python 3.11 or newer')"
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[dev]'
	touch $@

.venv/installed-docs: .venv/installed
	$(PIP) -e '.[docs]'
	touch $@
