# orlop's chores. `make` alone says what there is.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
UNITDIR ?= /etc/systemd/system
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET_DIR)/release

# Where nextest is missing (and can't be had) cargo's own runner does.
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
ifeq ($(NEXTEST),yes)
RUN_TESTS = $(CARGO) nextest run --locked $(NEXTEST_FLAGS)
else
RUN_TESTS = $(CARGO) test --locked
endif

.DEFAULT_GOAL := help
.PHONY: conformance help run build release static static-programs deps test test-peer test-containerd test-erofs test-gvisor test-lazy \
	screenshots test-runc test-static test-wasm test-release test-package test-upgrade test-vm chaos lint \
	deny bench install install-files package uninstall

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# All in one build: apart, half of what they are made of would be built twice.
run: deps ## a pod on a throw-away node: its log, its answer, and all is gone again
	$(CARGO) build --locked -p orlop -p orlop-keeper -p orlop-lazy -p orlop-shim -p orlop-run -p orlop-testkit --bins --example first_pod
	@$(TARGET_DIR)/debug/examples/first_pod

build: ## the daemon, what it starts, and containerd's shim, unoptimised
	$(CARGO) build --locked -p orlop -p orlop-keeper -p orlop-lazy -p orlop-shim -p orlop-containerd -p orlop-run

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

# Frames have a register of their own: the tables by which stacks are unwound need not follow each push
# then, and the program is 1 MB smaller at the same speed. Of zstd's ways to compress one is used, that of
# level 1 (crates/image/src/tape/recorder.rs): without the others it is 270 kB smaller.
SMALL_RUST = $(RUSTFLAGS) -C force-frame-pointers=yes
SMALL_C = $(CFLAGS) $(foreach way,DFAST GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA,-DZSTD_EXCLUDE_$(way)_BLOCK_COMPRESSOR)
SMALL = RUSTFLAGS='$(strip $(SMALL_RUST))' CFLAGS='$(strip $(SMALL_C))'

# The names of its functions are kept beside it: a profile needs them (docs/operations.md).
release: static ## the daemon, and what it starts linked statically beside it
	$(SMALL) $(CARGO) rustc --locked --release -p orlop --bin orlop -- $(FOLD) -C strip=debuginfo
	contrib/packages/symbols $(RELEASE)/orlop $(RELEASE)/orlop.debug

static: ## what the daemon starts, optimised and linked statically
	@$(HAS_MUSL) || timeout 120 rustup target add $(MUSL) || echo "no $(MUSL) here: linked with glibc"
	@$(MAKE) --no-print-directory static-programs

static-programs:
	RUSTFLAGS='$(STATIC_FLAGS) $(PLACELESS)' $(CARGO) build --locked --profile brief --target $(STATIC) \
		-p orlop-keeper -p orlop-lazy -p orlop-shim -p orlop-containerd -p orlop-run --bins
	install -D -t $(RELEASE) $(addprefix $(TARGET_DIR)/$(STATIC)/brief/, \
		orlop-keeper orlop-lazy orlop-shim containerd-shim-orlop-v1 orlop-run)
	@[ $(STATIC) != $(MUSL) ] || [ $$(stat -c %s $(RELEASE)/orlop-run) -lt 2000000 ] || \
		{ echo "orlop-run is larger than 2 MB"; exit 1; }
	@[ $(STATIC) != $(MUSL) ] || [ $$(stat -c %s $(RELEASE)/orlop-lazy) -lt 700000 ] || \
		{ echo "orlop-lazy is larger than 700 kB"; exit 1; }

deps: ## the Debian packages that running and testing need (installs as root, else lists)
	@.ci/deps

test: deps build ## all tests; those this machine can't run are listed with the reason
	@.ci/newer
	@.ci/axe
	@.ci/with-skips $(RUN_TESTS) --workspace

test-peer: deps build ## the behaviour tests on Debian's containerd, the reference
	@ORLOP_TEST_PEER=containerd .ci/with-skips $(RUN_TESTS) -p orlop --test cri --test node
	@ORLOP_TEST_PEER=containerd .ci/with-skips $(RUN_TESTS) -p orlop-kuberuntime --test node

test-containerd: deps build ## the behaviour tests on Debian's containerd with our shim
	@ORLOP_TEST_PEER=containerd ORLOP_TEST_PEER_SHIM=orlop .ci/with-skips $(RUN_TESTS) -p orlop --test cri -- \
		pods:: containers:: exec:: logs:: streams:: restart:: resources:: web_page::

test-runc: deps build ## the behaviour tests on Debian's runc; without this they are on orlop-run
	@ORLOP_TEST_RUNTIME=runc .ci/with-skips $(RUN_TESTS) -p orlop --test cri -- \
		pods:: containers:: exec:: logs:: streams:: resources:: escapes:: crash::kills keepers::

test-static: deps build static ## the behaviour tests on what is optimised and linked statically
	@ORLOP_RUN_BIN=$(abspath $(RELEASE))/orlop-run ORLOP_KEEPER_BIN=$(abspath $(RELEASE))/orlop-keeper \
		.ci/with-skips $(RUN_TESTS) -p orlop --test cri -- \
		pods:: containers:: exec:: logs:: streams:: resources:: escapes:: crash::kills keepers::

# What these tests spoil in a directory is spoiled in files by `one_file::`. Of the whole workspace there is but one
# `it`, that of images, and it has been built for `test`: of that package alone it would be built anew.
test-erofs: deps build ## the tests of images, and behaviour tests, with layers that are files of EROFS
	@ORLOP_TEST_IMAGE_STORE=erofs .ci/with-skips $(RUN_TESTS) --workspace --test it -- \
		layers:: pull:: archives:: artifacts:: restart:: manifests:: crash:: modules:: \
		--skip a_damaged_layer_is --skip a_new_layer_whose_files_a_disk_has_lost
	@ORLOP_TEST_IMAGE_STORE=erofs .ci/with-skips $(RUN_TESTS) -p orlop --test cri -- \
		images:: image_archives:: pods:: containers:: exec:: users:: checkpoint:: crash::kills \
		--skip a_damaged_layer_is

# What counts bytes, layers, steps of a pull or connections counts others here, and what harms blobs harms what is
# not read.
test-lazy: deps build ## behaviour tests with layers that are mounted while they are fetched
	@ORLOP_TEST_IMAGE_STORE=lazy .ci/with-skips $(RUN_TESTS) -p orlop --test cri -- \
		images:: image_archives:: pods:: containers:: exec:: users:: checkpoint:: volumes:: \
		crash::kills crash::memory escapes::images \
		--skip a_damaged_layer_is --skip a_pull_is_watched --skip a_verbose_status_tells \
		--skip the_image_file_system_is_reported

test-gvisor: deps build ## the behaviour tests on gVisor; what it does not do is in docs/runtimes.md
	@ORLOP_TEST_RUNTIME=runsc .ci/with-skips $(RUN_TESTS) -p orlop --test cri -- \
		pods:: containers:: exec:: logs:: streams:: restart:: networks:: \
		--skip too_much_memory_is_an_oom_kill --skip resources_are_updated_while_it_runs \
		--skip a_limit_ends_the_whole_tree

# What runwasi drags in is nothing that all who build should wait for: a workspace of its own.
WASM_SHIM := $(abspath $(TARGET_DIR))/wasm-shim
test-wasm: deps build ## pods of WebAssembly, run by a shim of runwasi's library that is built for it (3 min)
	$(CARGO) build --locked --manifest-path crates/testkit/wasm-shim/Cargo.toml --target-dir $(WASM_SHIM)
	@ORLOP_TEST_WASM_SHIM=$(WASM_SHIM)/debug/containerd-shim-kitwasm-v1 .ci/with-skips \
		$(RUN_TESTS) -p orlop --test cri -- wasm::

test-release: deps build release ## what is promised of the optimised build: sizes, idle CPU, a hundred pods
	@ORLOP_TEST_RELEASE=$(abspath $(RELEASE)) ORLOP_NODE_PODS=100 ORLOP_PEAK_PODS=500 .ci/with-skips \
		$(RUN_TESTS) --workspace --test daemon_size --test node --test docker --test cri \
		-- an_idle_daemon crowd:: calls:: peak:: on_containerd::a_pod_costs

test-upgrade: deps build ## pods over an upgrade and back, from the commit that UPGRADE_FROM names (HEAD~1)
	@ORLOP_TEST_OTHER=$$(.ci/other-version $(UPGRADE_FROM)) && export ORLOP_TEST_OTHER && \
		.ci/with-skips $(RUN_TESTS) --workspace --test cri -- upgrade::

conformance: deps build ## what critest, and a kubelet's static pods say: CRITEST=… KUBELET=… KUBECTL=… name them
	@$(CARGO) build --locked -p orlop-testkit --example conformance
	@env $(if $(RELEASED),ORLOP_TEST_RELEASE=$(abspath $(RELEASE))) CRITEST='$(CRITEST)' CRITEST_ARGS='$(CRITEST_ARGS)' \
		KUBELET='$(KUBELET)' KUBECTL='$(KUBECTL)' GATES='$(GATES)' ENGINE='$(ENGINE)' BACKENDS='$(BACKENDS)' HANDLERS='$(HANDLERS)' \
		HOSTS_DIR='$(HOSTS_DIR)' REPORT='$(REPORT)' $(TARGET_DIR)/debug/examples/conformance

screenshots: deps build ## the pictures of docs/, ≤ 150 kB each, of a node made for them; BASE=URL: of another site, LIST=FILE (JSON), INTO=DIRECTORY
	@$(CARGO) run --quiet --locked -p orlop-testkit --example screenshots -- \
		'$(or $(LIST),docs/pictures/list.json)' '$(or $(INTO),docs/pictures)' $(BASE)

test-package: deps build ## packages of the unoptimised build: their bytes and files, and in a VM: upgrade, removal, purge
	@.ci/packages $(UPGRADE_FROM)

test-vm: ## the tests on systemd and cgroup v2, in a VM of software; VM=short for a quick look
	@.ci/vm/tests $(VM)

chaos: NEXTEST_FLAGS = --profile chaos
chaos: deps build ## faults by the thousand: KILLS=1000 of each kind, FAULTS=1000 of system calls, REBOOTS=200 power cuts, DISKS=100 that become read-only, CYCLES=1000 pods, chosen by SEED=1
	@ORLOP_CHAOS_KILLS=$(or $(KILLS),1000) ORLOP_CRASH_KILLS=$(or $(KILLS),1000) \
		ORLOP_CHAOS_FAULTS=$(or $(FAULTS),1000) ORLOP_CHAOS_REBOOTS=$(or $(REBOOTS),200) \
		ORLOP_CHAOS_CYCLES=$(or $(CYCLES),1000) ORLOP_CHAOS_DISKS=$(or $(DISKS),100) \
		ORLOP_CHAOS_SEED=$(or $(SEED),1) .ci/with-skips $(RUN_TESTS) --workspace -- crash::

lint: ## formatting, clippy, import rules, licences and bans
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path crates/testkit/wasm-shim/Cargo.toml --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(RUN_TESTS) --workspace --test house
	@.ci/deny

deny: ## licences, bans, sources and (with a network) advisories by cargo-deny
	$(CARGO) deny check

bench: deps $(if $(BENCH),build,release) ## the numbers of SPECIFICATION.md; BENCH=short for a quick look
	@$(if $(BENCH),,$(SMALL)) .ci/bench $(BENCH)

install: release ## into PREFIX (/usr/local), with the systemd unit, manual pages and completions
	@$(MAKE) --no-print-directory install-files
	@echo "next: systemctl enable --now orlop"

PROGRAMS ?= $(RELEASE)
install-files:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(UNITDIR)
	install -m 0755 -t $(DESTDIR)$(PREFIX)/bin $(addprefix $(PROGRAMS)/,orlop orlop-keeper orlop-lazy \
		orlop-shim containerd-shim-orlop-v1 orlop-run)
	sed 's|@PREFIX@|$(PREFIX)|g' contrib/systemd/orlop.service > $(DESTDIR)$(UNITDIR)/orlop.service
	install -m 0644 contrib/systemd/orlop.socket $(DESTDIR)$(UNITDIR)/orlop.socket
	[ ! -e $(PROGRAMS)/orlop.debug ] || contrib/packages/symbols --check $(PROGRAMS)/orlop $(PROGRAMS)/orlop.debug
	[ ! -e $(PROGRAMS)/orlop.debug ] || install -D -m 0644 $(PROGRAMS)/orlop.debug \
		$(DESTDIR)$(PREFIX)/lib/debug/$$(contrib/packages/symbols --place $(PROGRAMS)/orlop)
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
package: ## a deb, an rpm and a tarball, in target/package; the same bytes wherever they are made
	RUSTFLAGS='$(ANYWHERE)' CARGO_TARGET_DIR=$(PACKAGES)/build \
		$(MAKE) --no-print-directory release PLACELESS='$(ANYWHERE)'
	contrib/packages/build $(PACKAGES)/build/release $(PACKAGES)

uninstall: ## what install put there; images and pods stay under /var/lib/orlop
	[ ! -e $(DESTDIR)$(PREFIX)/bin/orlop ] || \
		rm -f $(DESTDIR)$(PREFIX)/lib/debug/$$(contrib/packages/symbols --place $(DESTDIR)$(PREFIX)/bin/orlop)
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
