# SPDX-License-Identifier: Apache-2.0
# Shortcuts; CMakeLists.txt is the build system.
#   make demo       install what is missing, build, run an all-reduce through the plugin
#   make test       the quick tests
#   make test-full  the rest: long simulations, sanitizers, fuzzing, real processes under stress
#   make experiments  the papers' tables in virtual time: writes docs/experiments.md
#   make experiments-processes  the section of real processes in it; on an idle machine
JOBS ?= $(shell nproc)
# One test more than there are cores: many wait for timeouts or for each other.
TESTS_AT_A_TIME = $(shell expr $(JOBS) + 1)
BUILD = build

.PHONY: all demo test test-full experiments experiments-processes setup-demo setup-test clean

all: build

.PHONY: build
build:
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release
	cmake --build $(BUILD) -j $(JOBS)

demo:
	scripts/setup.sh demo
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release
	cmake --build $(BUILD) -j $(JOBS) --target detour nccl-net-detour
	scripts/demo.sh $(BUILD)
	scripts/demo_nccl.sh $(BUILD)

test:
	scripts/setup.sh test
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DDETOUR_WERROR=ON
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) -j $(TESTS_AT_A_TIME) -L quick --output-on-failure --timeout 300

test-full:
	scripts/setup.sh ci
	scripts/test_full.sh

experiments:
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release
	cmake --build $(BUILD) -j $(JOBS) --target detour-sim-pipeline detour-sim-intra detour-sim-incidents detour-sim-move \
		detour-sim-validation
	python3 experiments/run.py $(BUILD)
	python3 experiments/falcon.py $(BUILD)
	python3 experiments/charts.py

experiments-processes:
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release
	cmake --build $(BUILD) -j $(JOBS) --target detour nccl-net-detour detour-sim-pipeline detour-sim-incidents
	python3 experiments/processes.py $(BUILD)

clean:
	rm -rf build build-debug build-asan build-tsan build-aarch64
