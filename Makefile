# orlop's chores. `make` alone says what there is.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
UNITDIR ?= /etc/systemd/system
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET_DIR)/release

# Every run of the tests selects from the one build of the whole workspace: a build of a part would enable other
# features and compile the same crates again. `.config/nextest.toml` says what a profile selects.
WORKSPACE_TESTS = --locked --workspace --lib --bins --tests
RUN_TESTS = .ci/with-skips $(CARGO) nextest run $(WORKSPACE_TESTS) $(NEXTEST_FLAGS)

.DEFAULT_GOAL := help
.PHONY: conformance docs help run build test-build release static static-programs deps test test-unit test-peer test-containerd test-erofs \
	test-gvisor test-lazy test-quarantine test-tools screenshots test-runc test-static test-lean test-wasm test-release test-package test-upgrade test-vm \
	chaos rules check lint deny bench install install-files package uninstall

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# All in one build: apart, half of what they are made of would be built twice.
run: deps ## build orlop and run a pod on scratch directories
	$(CARGO) build --locked -p orlop -p orlop-keeper -p orlop-lazy -p orlop-shim -p orlop-run -p orlop-testkit --bins --example first_pod
	@$(TARGET_DIR)/debug/examples/first_pod

build: ## build all programs, unoptimised
	$(CARGO) build --locked -p orlop -p orlop-keeper -p orlop-lazy -p orlop-shim -p orlop-containerd-shim -p orlop-run

# Functions that are alike become one, where the linker can.
FOLD = $(shell dir=$$(mktemp -d) && echo 'fn main() {}' | \
	rustc - -o "$$dir/probe" -C link-arg=-Wl,--icf=all 2>/dev/null && \
	echo '-C link-arg=-Wl,--icf=all'; rm -rf "$$dir")

# What is started for each pod and container is linked with musl: there it starts in half the time,
# as glibc asks the processor 55 times what it can, and each answer costs a VM 4 us. Where Rust's
# library for musl is not here and cannot be had, glibc it is. Rust's own linker is taken by its
# path: gcc would look for one that need not be there.
MUSL := $(subst -gnu,-musl,$(HOST))
SYSROOT = $(shell rustc --print sysroot)
HAS_MUSL = [ -d "$(SYSROOT)/lib/rustlib/$(MUSL)/lib" ]
STATIC = $(shell $(HAS_MUSL) && echo $(MUSL) || echo $(HOST))
STATIC_FLAGS = -C target-feature=+crt-static -C relocation-model=static -C strip=symbols \
	$(shell $(HAS_MUSL) && echo -C link-arg=-B$(SYSROOT)/lib/rustlib/$(HOST)/bin/gcc-ld \
		-C link-arg=-fuse-ld=lld -C link-arg=-Wl,--icf=all)

# Frames have a register of their own: `orlop debug profile` follows it. The tables by which stacks are unwound need not
# follow each push then, and the program is 1 MB smaller at the same speed. Of zstd's ways to compress one is used, that of
# level 1 (crates/image/store/src/tape/recorder.rs): without the others it is 270 kB smaller.
SMALL_RUST = $(RUSTFLAGS) -C force-frame-pointers=yes
SMALL_C = $(CFLAGS) $(foreach way,DFAST GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA,-DZSTD_EXCLUDE_$(way)_BLOCK_COMPRESSOR)
SMALL = RUSTFLAGS='$(strip $(SMALL_RUST))' CFLAGS='$(strip $(SMALL_C))'

release: static ## build all programs, optimised
	$(SMALL) $(CARGO) rustc --locked --release -p orlop --bin orlop -- $(FOLD) -C strip=debuginfo

static: ## build the static programs, optimised
	@$(HAS_MUSL) || timeout 120 rustup target add $(MUSL) || echo "no $(MUSL) here: linked with glibc"
	@$(MAKE) --no-print-directory static-programs

static-programs:
	RUSTFLAGS='$(STATIC_FLAGS) $(PLACELESS)' $(CARGO) build --locked --profile brief --target $(STATIC) \
		-p orlop-keeper -p orlop-lazy -p orlop-shim -p orlop-containerd-shim -p orlop-run --bins
	install -D -t $(RELEASE) $(addprefix $(TARGET_DIR)/$(STATIC)/brief/, \
		orlop-keeper orlop-lazy orlop-shim containerd-shim-orlop-v1 orlop-run)
	@[ $(STATIC) != $(MUSL) ] || [ $$(stat -c %s $(RELEASE)/orlop-run) -lt 2000000 ] || \
		{ echo "orlop-run is larger than 2 MB"; exit 1; }
	@[ $(STATIC) != $(MUSL) ] || [ $$(stat -c %s $(RELEASE)/orlop-lazy) -lt 700000 ] || \
		{ echo "orlop-lazy is larger than 700 kB"; exit 1; }

deps: ## install the Debian packages for running and testing (not as root: list them)
	@.ci/deps

# In one build, too: what is linked here is what the tests start.
test-build: ## build all tests and the programs that they start
	$(CARGO) nextest run --no-run $(WORKSPACE_TESTS)
	$(CARGO) build --locked --workspace --bins
	$(CARGO) build --locked --workspace $(addprefix --example ,$(TEST_EXAMPLES))

# Programs that tests start, and that are no part of orlop.
TEST_EXAMPLES := containerd-shim-kit-v2 containerd-shim-machine-v2 idle_runtime oci-probe

ifdef T
test: ## run all tests and list the skipped ones; T=pods:: selects tests by name, P=CRATE one crate
	$(CARGO) build --locked --workspace --bins
	@.ci/with-skips $(CARGO) nextest run --locked $(if $(P),--package $(P),--workspace) --lib --bins --tests $(NEXTEST_FLAGS) -- $(T)
else
test: deps test-build
	@.ci/newer
	@.ci/axe
	@ORLOP_TEST_ALL=yes $(RUN_TESTS) --profile ci
endif

test-unit: ## run the unit tests, as any user and without Debian packages
	@.ci/with-skips $(CARGO) nextest run --locked --workspace --lib --bins --profile ci

test-quarantine: deps test-build ## run the unreliable tests, which `make test` leaves out
	@$(RUN_TESTS) --profile quarantine --no-tests pass

test-tools: ## run the tests of the tools in crates/testing/conformance
	@.ci/with-skips $(CARGO) nextest run --locked --workspace --features orlop-conformance/tools --lib --bins --profile tools

test-peer: deps test-build ## run the behaviour tests on Debian's containerd, for comparison
	@ORLOP_TEST_PEER=containerd $(RUN_TESTS) --profile peer

test-containerd: deps test-build ## run the behaviour tests on Debian's containerd with containerd-shim-orlop-v1
	@ORLOP_TEST_PEER=containerd ORLOP_TEST_PEER_SHIM=orlop $(RUN_TESTS) --profile containerd

test-runc: deps test-build ## run the behaviour tests on Debian's runc instead of orlop-run
	@ORLOP_TEST_RUNTIME=runc $(RUN_TESTS) --profile runc

test-static: deps test-build static ## run the behaviour tests on the optimised static programs
	@ORLOP_RUN_BIN=$(abspath $(RELEASE))/orlop-run ORLOP_KEEPER_BIN=$(abspath $(RELEASE))/orlop-keeper \
		$(RUN_TESTS) --profile static

test-lean: deps test-build ## test the daemon without the cargo features docker, node and migrate
	@ORLOP_BIN=$$(.ci/lean) && export ORLOP_BIN && $(RUN_TESTS) --profile static

test-erofs: deps test-build ## run the image and behaviour tests with layers as EROFS files
	@ORLOP_TEST_IMAGE_STORE=erofs $(RUN_TESTS) --profile erofs

test-lazy: deps test-build ## run the behaviour tests with lazy layers
	@ORLOP_TEST_IMAGE_STORE=lazy $(RUN_TESTS) --profile lazy

test-gvisor: deps test-build ## run the behaviour tests on gVisor
	@ORLOP_TEST_RUNTIME=runsc $(RUN_TESTS) --profile gvisor

# What runwasi drags in is nothing that all who build should wait for: a workspace of its own.
WASM_SHIM := $(abspath $(TARGET_DIR))/wasm-shim
test-wasm: deps test-build ## run WebAssembly pods with a shim that is built for it (3 min)
	$(CARGO) build --locked --manifest-path crates/testing/testkit/wasm-shim/Cargo.toml --target-dir $(WASM_SHIM)
	@ORLOP_TEST_WASM_SHIM=$(WASM_SHIM)/debug/containerd-shim-kitwasm-v1 $(RUN_TESTS) --profile wasm

test-release: deps test-build release ## test the sizes and costs of the optimised build
	@ORLOP_TEST_RELEASE=$(abspath $(RELEASE)) ORLOP_NODE_PODS=100 ORLOP_PEAK_PODS=500 $(RUN_TESTS) --profile release

test-upgrade: deps test-build ## upgrade and downgrade with running pods; UPGRADE_FROM=COMMIT
	@ORLOP_TEST_OTHER=$$(.ci/other-version $(UPGRADE_FROM)) && export ORLOP_TEST_OTHER && $(RUN_TESTS) --profile upgrade

conformance: deps build ## run critest and a kubelet; CRITEST=FILE KUBELET=FILE KUBECTL=FILE
	@$(CARGO) build --locked -p orlop-conformance --features tools --bin conformance
	@env $(if $(RELEASED),ORLOP_TEST_RELEASE=$(abspath $(RELEASE))) CRITEST='$(CRITEST)' CRITEST_ARGS='$(CRITEST_ARGS)' \
		KUBELET='$(KUBELET)' KUBECTL='$(KUBECTL)' GATES='$(GATES)' ENGINE='$(ENGINE)' BACKENDS='$(BACKENDS)' HANDLERS='$(HANDLERS)' \
		HOSTS_DIR='$(HOSTS_DIR)' REPORT='$(REPORT)' $(TARGET_DIR)/debug/conformance

docs: ## render the documents as a site in target/book
	@.ci/docs

screenshots: deps build ## take the pictures in docs/; BASE=URL of another site, LIST=FILE, INTO=DIRECTORY
	@$(CARGO) run --quiet --locked -p orlop-conformance --features tools --bin screenshots -- \
		'$(or $(LIST),docs/pictures/list.json)' '$(or $(INTO),docs/pictures)' $(BASE)

test-package: deps ## build packages and test them, also in a VM
	@.ci/tool cargo-auditable 900
	@$(AUDITABLE) $(MAKE) --no-print-directory build
	@.ci/packages $(UPGRADE_FROM)

test-vm: ## run the tests for systemd and cgroup v2 in a VM; VM=short, base, differential, systemd, cgroupfs, selinux
	@.ci/vm/tests $(VM)

chaos: deps test-build ## inject faults; KILLS=1000 FAULTS=1000 REBOOTS=200 DISKS=100 CYCLES=1000 SEED=1
	@ORLOP_CHAOS_KILLS=$(or $(KILLS),1000) ORLOP_CRASH_KILLS=$(or $(KILLS),1000) \
		ORLOP_CHAOS_FAULTS=$(or $(FAULTS),1000) ORLOP_CHAOS_REBOOTS=$(or $(REBOOTS),200) \
		ORLOP_CHAOS_CYCLES=$(or $(CYCLES),1000) ORLOP_CHAOS_DISKS=$(or $(DISKS),100) \
		ORLOP_CHAOS_SEED=$(or $(SEED),1) $(RUN_TESTS) --profile chaos

rules: # Formatting and the house rules: what needs no build.
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path crates/testing/testkit/wasm-shim/Cargo.toml --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) nextest run --locked --package orlop-house-rules --profile ci

check: rules ## check formatting and house rules, run clippy
	$(CARGO) clippy --locked --workspace --features orlop-conformance/tools --all-targets -- -D warnings

lint: check ## run `make check` and cargo-deny
	@.ci/deny || { [ $$? = 2 ] && [ -z "$$ORLOP_CI_STRICT" ]; }

deny: ## check licences, bans, sources and advisories with cargo-deny
	@.ci/deny
	@.ci/advisories

bench: deps $(if $(BENCH),test-build,release) ## run the benchmarks of SPECIFICATION.md; BENCH=short for a quick run
	@$(if $(BENCH),,$(SMALL)) .ci/bench $(BENCH)

install: release ## install orlop below PREFIX (/usr/local)
	@$(MAKE) --no-print-directory install-files
	@echo "next: systemctl enable --now orlop"

PROGRAMS ?= $(RELEASE)
install-files:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(UNITDIR)
	install -m 0755 -t $(DESTDIR)$(PREFIX)/bin $(addprefix $(PROGRAMS)/,orlop orlop-keeper orlop-lazy \
		orlop-shim containerd-shim-orlop-v1 orlop-run)
	sed 's|@PREFIX@|$(PREFIX)|g' contrib/systemd/orlop.service > $(DESTDIR)$(UNITDIR)/orlop.service
	install -m 0644 contrib/systemd/orlop.socket $(DESTDIR)$(UNITDIR)/orlop.socket
	$(PROGRAMS)/orlop man $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man8 contrib/man/*.8
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/orlop contrib/prometheus/rules.yml contrib/grafana/orlop.json
	$(PROGRAMS)/orlop-run man > $(DESTDIR)$(PREFIX)/share/man/man8/orlop-run.8
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(PROGRAMS)/orlop completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/orlop
	$(PROGRAMS)/orlop completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_orlop
	$(PROGRAMS)/orlop completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/orlop.fish

# Where it was built is nothing that a program knows, so that it is the same wherever it is built.
PACKAGES = $(abspath $(TARGET_DIR))/package
ANYWHERE = --remap-path-prefix=$(PACKAGES)=/target --remap-path-prefix=$(CURDIR)=/orlop \
	--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
# `cargo auditable` writes the list of a program's crates into it. Cargo hashes the path of this wrapper into the names of
# functions; without a directory the path is the same on every machine.
AUDITABLE = RUSTC_WORKSPACE_WRAPPER=cargo-auditable \
	CARGO_AUDITABLE_ORIG_ARGS='{"offline":false,"locked":true,"frozen":false,"config":[]}'
package: ## build a deb, an rpm and a tarball in target/package
	.ci/tool cargo-auditable 900
	$(AUDITABLE) RUSTFLAGS='$(ANYWHERE)' CARGO_TARGET_DIR=$(PACKAGES)/build \
		$(MAKE) --no-print-directory release PLACELESS='$(ANYWHERE)'
	contrib/packages/build $(PACKAGES)/build/release $(PACKAGES)

uninstall: ## remove what `make install` installed; images and pods stay
	rm -f $(DESTDIR)$(PREFIX)/bin/orlop $(DESTDIR)$(PREFIX)/bin/orlop-keeper \
		$(DESTDIR)$(PREFIX)/bin/orlop-lazy $(DESTDIR)$(PREFIX)/bin/orlop-shim \
		$(DESTDIR)$(PREFIX)/bin/containerd-shim-orlop-v1 $(DESTDIR)$(PREFIX)/bin/orlop-run
	rm -f $(DESTDIR)$(UNITDIR)/orlop.service $(DESTDIR)$(UNITDIR)/orlop.socket
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/orlop.1 $(DESTDIR)$(PREFIX)/share/man/man1/orlop-*.1 \
		$(addprefix $(DESTDIR)$(PREFIX)/share/man/man8/,orlop-run.8 $(notdir $(wildcard contrib/man/*.8)))
	rm -f $(DESTDIR)$(PREFIX)/share/orlop/rules.yml $(DESTDIR)$(PREFIX)/share/orlop/orlop.json
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/orlop \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_orlop \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/orlop.fish
