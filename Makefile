# SPDX-License-Identifier: MIT
# The front door.  `make demo` and `make test` install what is missing; the rest only builds.
#
#   make demo      build, fetch a model, show the attention of two sentences
#   make test      everything under ctest, in every build (make quick: release build only)
#   make           the library and the command in build/release
#   make install   to PREFIX (/usr/local), under DESTDIR if given
#   make bench     timings beside other programs (bench/run.py; BENCH=--quick)
#   make gates     the rules that a script can check;  make format  clang-format on all sources
#   make clean     removes build/
SHELL = /bin/bash
JOBS ?= $(shell n=$$(nproc); echo $$((n > 8 ? 8 : n)))
PREFIX ?= /usr/local
BUILD = build/release
# cmake starts its own make: it must not inherit the flags of this one
CMAKE = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake
DEMO = "time flies like an arrow" "fruit flies like a banana"

.DEFAULT_GOAL = all
.PHONY: all demo setup-demo setup-test model test quick install bench gates format format-check clean

$(BUILD)/CMakeCache.txt:
	@$(CMAKE) --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) >build/configure.log 2>&1 || \
	  { cat build/configure.log; rm -f $@; exit 1; }

all:
	@mkdir -p build
	@$(MAKE) --no-print-directory $(BUILD)/CMakeCache.txt
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

setup-demo:
	@tools/setup.sh demo
setup-test:
	@tools/setup.sh test
model:
	@tools/model.sh

demo: setup-demo model
	@tools/build.sh $(BUILD) -DQKV_TESTS=OFF -DQKV_BENCH=OFF
	@$(BUILD)/bin/qkv view --force -o build/demo.html $(DEMO)

test: setup-test model
	@tools/test.sh
quick: setup-test model
	@tools/test.sh gates release

install: all
	@$(CMAKE) --install $(BUILD) --prefix $(PREFIX)

bench:
	@python3 bench/run.py $(BENCH)

gates:
	@python3 tools/gates.py
format:
	@tools/format.sh
format-check:
	@tools/format.sh --check
clean:
	rm -rf build
