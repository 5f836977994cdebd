# What a person or a CI job types. Each target is one line of help; the work is in scripts/.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The command as it is built for use; `make run TAR=linux.tar.xz` takes another source tree.
TAR ?=
FILES ?= 100000
# Further options of `pandofs-bench run`, of `pandofs-bench data` and of `pandofs-bench commit`.
BENCH ?=
# Trees of the paper's figures on tree walks are smaller than its own by this; 1 takes ten minutes of a processor.
DIVIDE ?= 1
BENCH_DATA ?=
BENCH_COMMIT ?=
# What walks trees over MPI is linked to it, and so behind a feature.
MPI = --features pandofs-walk-mpi/mpi
PANDOFS = $$(scripts/cargo-target.sh)/release/pandofs
# Seconds after which the tests of one binary are taken to hang: it is ended and named, and the others still run.
UNIT_LIMIT ?= 1200
LIMITED = --config 'target."cfg(unix)".runner=["scripts/unit-runner.sh", "$(UNIT_LIMIT)"]'
# Prints how long a step took, and what is around all of them where the time went.
TIMED = scripts/timed.sh
# The whole workspace, examples included, since these have the dependencies of tests: so features are those that `make unit`
# builds with, and nothing but programs is compiled a second time. (What features add is not called in programs.)
E2E_BUILD = cargo build --release --workspace --lib --bins --examples $(MPI)
# The POSIX suite once more, with its system calls made by the C library, for the preloaded library to see them. Not in one
# build with the rest, which would have the same done to it.
E2E_BUILD_C = cargo build --release --package pandofs-posix --features c-library \
	--target-dir "$$(scripts/cargo-target.sh)/c-library"

# The benchmarks of single parts, and the file system in memory that the whole is compared with.
BENCHMARKS = --package pandofs-fuse --package pandofs-wire --package pandofs-store-rocksdb \
	--package pandofs-log-raft-engine --examples

.NOTPARALLEL:
.PHONY: help deps build install packages image wheel run check test test-long lint unit e2e sim soak fuzz mutants model bench bench-commit bench-placement bench-walk clean

help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18
	@echo
	@echo 'make run TAR=FILE    unpack another source tree than /usr/include'
	@echo 'make run FILES=N     another number of files than 100000'
	@echo "make bench BENCH='--files 5000 --rounds 3 --processes 8'    other measurements"
	@echo "make bench-commit BENCH_COMMIT='--rounds 3 --files 5000'      the same of commit protocols"
	@echo "make bench BENCH_DATA='--size 2048 --jobs 1'                  the same of large files"

deps: ## Install what building and running need (says what and why)
	scripts/deps.sh build run

build: ## Build the release binary, and the libraries for C and for unmodified programs
	scripts/deps.sh build
	cargo build --release --package pandofs-cli --package pandofs-capi --package pandofs-preload \
		--package pandofs-walk-tools --package pandofs-walk-mpi $(MPI)

install: build ## Install programs, the library for C, manual pages and completions below $PREFIX (default /usr/local)
	DESTDIR=$(DESTDIR) scripts/install.sh $$(scripts/cargo-target.sh)/release $(PREFIX)

packages: ## Make dist/pandofs_*.deb and dist/pandofs-*.rpm: see docs/packages.md
	scripts/packages.sh

image: ## Make dist/pandofs-*-oci.tar, a container image with what the deb installs
	scripts/image.sh

wheel: ## Make dist/pandofs-*.whl, the library for Python 3.9 and later: see docs/python.md
	scripts/deps.sh build wheel
	scripts/wheel.sh

run: ## Build, start four servers and a mount in a scratch folder, and show them at work
	scripts/deps.sh build run
	cargo build --release --package pandofs-cli
	scripts/run.sh $(PANDOFS) --files $(FILES) $(if $(TAR),--tar $(TAR))

check: ## In two minutes after a change: format, house rules, and clippy and unit tests of the crates that differ from $BASE
	scripts/deps.sh build lint
	scripts/check.sh $(BASE)

test: ## Formatting, lints, house rules, unit and end-to-end tests, and where the time went
	$(TIMED) 'make test' $(MAKE) lint unit e2e

test-long: ## What takes too long for each commit (docs/testing.md); `make test-long NAMES='soak fuzz'` for some of it
	scripts/deps.sh build run test
	$(E2E_BUILD)
	$(E2E_BUILD_C)
	$(TIMED) 'make test-long' scripts/test-long.sh $(PANDOFS) $(NAMES)

lint: ## Formatting, clippy, the house rules and the licences of libraries only
	scripts/deps.sh build lint deny
	$(TIMED) 'format' cargo fmt --all --check
	$(TIMED) 'clippy' cargo clippy --workspace --all-targets --release $(MPI) -- -D warnings
	$(TIMED) 'house rules' cargo xtask check
	$(TIMED) 'licences of libraries' scripts/deny.sh

unit: ## Unit, property, model and conformance tests only
	scripts/deps.sh build run unit
	$(TIMED) 'unit tests: compiling' cargo test --workspace --release $(MPI) --no-run
	$(TIMED) 'unit tests' scripts/scratch.sh cargo test --workspace --release $(MPI) --no-fail-fast $(LIMITED)

e2e: ## End-to-end tests on a real mount only
	scripts/deps.sh build run test package image package-test
	$(TIMED) 'end-to-end tests: compiling' $(E2E_BUILD)
	$(TIMED) 'end-to-end tests: compiling the POSIX suite for the C library' $(E2E_BUILD_C)
	$(TIMED) 'end-to-end tests' scripts/scratch.sh scripts/e2e.sh $(PANDOFS)

sim: ## Simulate 1,000 clusters from seeds 0 to 999; `make sim SEEDS=N` for another number
	scripts/deps.sh build
	cargo xtask sim --seeds $(or $(SEEDS),1000)

soak: ## kill -9 at random for ten minutes under load, with every check; `make soak MINUTES=N`
	scripts/deps.sh build run
	cargo build --release --package pandofs-cli --package pandofs-trials
	scripts/soak.sh $(PANDOFS) $(or $(MINUTES),10)

fuzz: ## Give every decoder of bytes to libFuzzer, 30 s each; `make fuzz SECONDS=N` for longer
	scripts/deps.sh build
	scripts/fuzz.sh $(or $(SECONDS),30) $(TARGETS)

mutants: ## Change a crate's code in every small way: which changes do its tests miss? `make mutants CRATE=commit PART=0/8`
	scripts/deps.sh build mutants
	scripts/mutants.sh $(or $(CRATE),commit) $(PART)

bench: ## Measure beside ext4, bindfs and an in-memory FUSE file system, and large files with fio (as root)
	scripts/deps.sh build run bench
	cargo build --release --package pandofs-cli --package pandofs-bench
	cargo build --release $(BENCHMARKS)
	target=$$(scripts/cargo-target.sh)/release && $$target/pandofs-bench run --pandofs $$target/pandofs \
		--memfs $$target/examples/memfs --commit "$$(git describe --always --dirty)" $(BENCH) && \
		$$target/pandofs-bench work --pandofs $$target/pandofs --memfs $$target/examples/memfs \
			--commit "$$(git describe --always --dirty)" && \
		$$target/pandofs-bench neighbours --pandofs $$target/pandofs \
			--commit "$$(git describe --always --dirty)" && \
		$$target/pandofs-bench caches --pandofs $$target/pandofs \
			--commit "$$(git describe --always --dirty)" && \
		$$target/pandofs-bench data --pandofs $$target/pandofs --commit "$$(git describe --always --dirty)" \
		$(BENCH_DATA) && \
		$$target/examples/wire_bench && $$target/examples/store_bench && $$target/examples/log_bench

bench-commit: ## The commit protocols side by side, the log's price and recovery (figures in target/commit)
	scripts/deps.sh build run
	cargo build --release --package pandofs-cli --package pandofs-bench
	target=$$(scripts/cargo-target.sh) && mkdir -p $$target/commit && $$target/release/pandofs-bench commit \
		--pandofs $$target/release/pandofs --commit "$$(git describe --always --dirty)" \
		--json $$target/commit/figures.jsonl --plots $$target/commit $(BENCH_COMMIT)

model: ## The papers' figures at their sizes, and whether their claims are as docs/placement.md has them
	scripts/deps.sh build
	PANDOFS_MODEL=full cargo test --release --package pandofs-model --test claims -- --nocapture

bench-placement: ## Measure placement policies, and put the model beside (report in target/placement)
	scripts/deps.sh build run
	cargo build --release --package pandofs-cli
	scripts/bench-placement.sh $(PANDOFS) "$$(scripts/cargo-target.sh)/placement" "$$(git describe --always --dirty)"

bench-walk: ## The paper's figures on tree walks as an HTML page, and the walk beside find, fd and others
	scripts/deps.sh build bench-walk
	cargo build --release --package pandofs-walk-bench --package pandofs-walk-tools --package pandofs-walk-mpi $(MPI)
	set -e; target=$$(scripts/cargo-target.sh)/release; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
		for files in 20000 60000 200000; do \
			$$target/pandofs-walk-bench tree balanced --files $$files $$scratch/$$files; \
		done; \
		$$target/pandofs-walk-bench figures --out walk-figures.html --divide $(DIVIDE) \
			--real $$scratch/20000,$$scratch/60000,$$scratch/200000 --pandofs-mpi $$target/pandofs-mpi
	target=$$(scripts/cargo-target.sh)/release && \
		PATH=$$(scripts/cargo-target.sh)/programs/bin:$$PATH scripts/bench-walk.sh $$target/pandofs-walk-bench \
			$$target/pandofs-walk "$$(mktemp -u -d)"

clean: ## Remove what was built
	cargo clean
