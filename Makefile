# SPDX-License-Identifier: MIT
# The entry point.  `make demo` and `make test` install missing packages; the other targets only
# build.
#
#   make demo      build, fetch a model, show what "it" attends to in two sentences
#   make test      the release build and every test except the long ones
#   make check     all stages: gates, instruction sets, sanitizers, clang with small tiles, double,
#                  64-bit ARM
#   make long      tests that take many minutes: emulated AMX, the whole grid of qkv verify
#   make           the library and the command in build/release
#   make install   to PREFIX (/usr/local), under DESTDIR if given
#   make book      the course (docs/notes) as one offline HTML file, build/book/index.html
#   make bench     timings next to other programs (bench/run.py; BENCH="--quick PART"); writes docs/performance
#   make interaction   the page timed by the browser's own clock, on a quiet machine
#   make parity    tokenizers compared with Hugging Face on a million lines
#                  (tools/tokenizer_parity.py)
#   make gates     the rules that a script can check;  make format  clang-format on all sources
#   make clean     removes build/
#   make help      prints this list
SHELL = /bin/bash
PREFIX ?= /usr/local
BUILD = build/release
PARTS = qkv qkv_cli qkv_gradcheck qkv_cli_docs
DEMO = "The animal didn't cross the street because it was too tired" \
	--against "The animal didn't cross the street because it was too wide" --layer 3 --heads 1 --token it

.DEFAULT_GOAL = all
.NOTPARALLEL:
.PHONY: all help demo setup-demo setup-test setup-long setup-book book model test check long install bench interaction parity gates format format-check clean

all:
	@TARGETS="$(PARTS)" tools/build.sh $(BUILD)

help:
	@sed -n '/^#   make/,/^SHELL/s/^#   //p' Makefile

setup-demo:
	@echo "make demo: 1 of 4: packages that are missing"
	@tools/setup.sh demo
	@echo "make demo: 2 of 4: building the command, which takes minutes the first time"
setup-book:
	@tools/setup.sh book
setup-long:
	@tools/setup.sh long
setup-test:
	@tools/setup.sh test
model:
	@tools/model.sh

# Without a network: models/verse, which is part of the tree.
demo: setup-demo all
	@echo "make demo: 3 of 4: fetching a model, 84 MB the first time"
	@tools/model.sh || echo "qkv: continuing with models/verse"
	@echo "make demo: 4 of 4: drawing what 'it' attends to in two sentences, to build/demo.html"
	@$(BUILD)/bin/qkv view --force --terminal -o build/demo.html $(DEMO)

test: setup-test model
	@tools/test.sh release
# STAGES="asan tsan": these alone.
check: setup-test model
	@tools/test.sh $(STAGES)

long: setup-long model
	@tools/test.sh long

install:
	@TARGETS="$(PARTS)" tools/build.sh $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --install $(BUILD) --prefix $(PREFIX)

book: setup-book
	@python3 tools/book.py build/book/index.html

bench:
	@python3 bench/run.py $(BENCH)

interaction:
	@cmake --build $(BUILD) --target make_pages make_odd
	@python3 tests/view/interaction.py $(BUILD)/tests/make_pages $(BUILD)/tests/make_odd $(BUILD)/interaction

# PARITY="--lines 100000"; the Python of QKV_PEERS_VENV, as for make bench.
parity: all
	@$${QKV_PEERS_VENV:-build/peers-venv}/bin/python tools/tokenizer_parity.py $(BUILD)/libqkv.so $(PARITY)

gates:
	@python3 tools/gates.py
format:
	@tools/format.sh
format-check:
	@tools/format.sh --check
clean:
	rm -rf build
