# make demo   builds, runs the example on 4 ranks under Open MPI, prints its report
# make test   every test that .ci/run runs
# make help   all targets

BUILD   := build
# For the builds that demo and test begin with.
AT_ONCE := -j$(shell nproc)
CC      := gcc
CFLAGS  ?= -O2 -g
NO_PATH := -ffile-prefix-map=$(CURDIR)=.
GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=

# No path of this machine (NO_PATH for C), so that every build of a commit is the
# same; without symbol tables, which stack traces and profiles of Go do not need.
GO_FLAGS := -trimpath -buildvcs=false -ldflags='-s -w'

# What the targets need of Debian. The Go toolchain is taken as given.
DEPS_BUILD := gcc make libc6-dev ca-certificates
DEPS_DEMO  := $(DEPS_BUILD) openmpi-bin libopenmpi-dev gfortran
DEPS_TEST  := $(DEPS_DEMO) g++ clang mpich libmpich-dev python3 python3-mpi4py \
	iproute2 util-linux git xz-utils binutils chromium tmux \
	prometheus prometheus-node-exporter systemd \
	bash-completion zsh fish man-db mandoc \
	libopen-trace-format2-dev pkg-config otf2-tools python3-otf2 protobuf-compiler \
	llvm libucx0 libjemalloc2 libtcmalloc-minimal4 \
	qemu-system-x86 libibverbs-dev ibverbs-providers ibverbs-utils
DEPS_SLURM := $(DEPS_TEST) slurm-wlm munge
DEPS_ARM64 := $(DEPS_BUILD) gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static

# What was stored in halves is not loaded whole: such a load waits until the stores before
# them are seen by all, of which one may be a message in the memory of another process.
HALVES := $(shell for f in -fno-store-merging -fno-tree-slp-vectorize; do \
	$(CC) -Werror $$f -c -o /dev/null -xc /dev/null 2>/dev/null && echo $$f; done)

# Only what is in an export map leaves the library; libgcc's unwinder is linked in,
# so that no library is added to the processes it is preloaded into.
SHIM_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -fexceptions $(HALVES) -Wall -Wextra \
	-Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
SHIM_LDFLAGS := -shared -static-libgcc -Wl,-z,now -Wl,-z,relro \
	-Wl,--no-undefined -Wl,-soname,libmpishim.so
# dlsym lies in libdl before glibc 2.34
SHIM_LIBS := -Wl,--no-as-needed -l:libdl.so.2

# The same library without the functions of later versions of MPI: a program that
# looks whether there is a function must not find one that its MPI lacks. mpitrace run
# takes the one that fits.
VARIANTS := $(patsubst c/gen/exports-%.map,$(BUILD)/libmpishim-%.so,\
	$(wildcard c/gen/exports-*.map))

PROBE   := $(wildcard c/probe/*.c)
PLAIN   := $(PROBE) $(filter-out c/pmpi/handles.c,$(wildcard c/pmpi/*.c)) \
	c/gen/names.gen.c
PER_ABI := c/pmpi/handles.c c/gen/wrappers.gen.c
OBJECTS := $(PLAIN:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/c/gen/entries.gen.o \
	$(PER_ABI:%.c=$(BUILD)/obj/openmpi/%.o) \
	$(PER_ABI:%.c=$(BUILD)/obj/mpich/%.o)

# The runtime of act mode: engine and transport, and the functions that stand in
# for MPI's, once per ABI. Go is in a library of its own, which a rank loads that
# keeps registrations: see docs/design/0009-act-mode.md.
RT_PLAIN   := $(wildcard c/engine/*.c c/fabric/*.c c/memhook/*.c c/regcache/*.c) \
	$(wildcard c/regservice/*.c c/regservice/loaded/*.c) \
	$(filter-out c/fabric/tool/%,$(wildcard c/fabric/*/*.c)) \
	$(addprefix c/act/,act.c cache.c device.c figures.c ledger.c place.c policy.c \
		rules.c table.c)
RT_PER_ABI := $(filter-out $(RT_PLAIN),$(wildcard c/act/*.c))
RT_OBJECTS := $(RT_PLAIN:%.c=$(BUILD)/obj/%.o) \
	$(RT_PER_ABI:%.c=$(BUILD)/obj/openmpi/%.o) \
	$(RT_PER_ABI:%.c=$(BUILD)/obj/mpich/%.o)
RT_LDFLAGS := -shared -static-libgcc -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete \
	-Wl,--build-id -Wl,--no-undefined -Wl,--version-script=c/act/exports.map \
	-Wl,-soname,libmpishim-rt.so
# Short messages go through many small functions of several files. Not every compiler
# can, or has a linker that can.
LTO := $(shell echo 'int x;' | $(CC) -shared -fPIC -flto -flto-partition=one -Werror \
	-o /dev/null -xc - 2>/dev/null && echo -flto -flto-partition=one)
$(RT_OBJECTS): SHIM_CFLAGS += $(firstword $(LTO))
RT_LDFLAGS += $(LTO)
# Without asynchronous preemption, which would send signals to its threads.
GO_RANK_FLAGS := -trimpath -buildvcs=false \
	-ldflags='-s -w -X=runtime.godebugDefault=asyncpreemptoff=1'
GO_RANK_LDFLAGS := -shared -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete \
	-Wl,--build-id -Wl,--no-undefined \
	-Wl,--version-script=shim/regservice/archive/exports.map \
	-Wl,-soname,libmpishim-go.so

.PHONY: all build command demo test check c-test generate clean help \
	deps-build deps-demo deps-test modules bench-overhead bench-fabric bench-regcache bench-report \
	bench-top bench-agent bench-memmon bench-act conformance conformance-act realapps realapps-act findings \
	pass-table test-slurm test-arm64 test-stale test-vm test-fabric-long \
	test-act-long test-debian13

all: build

help:
	@echo 'make build           the libraries and build/mpitrace'
	@echo 'make demo            run the example under Open MPI and report on it'
	@echo 'make test            all tests, as .ci/run does (about half an hour)'
	@echo 'make c-test          only the C tests, with the sanitizers'
	@echo 'make generate        write the generated files from spec/'
	@echo 'make pass-table      run the pass table and write docs/pass-table.md'
	@echo 'make conformance     the MPICH test suite on both MPIs (an hour)'
	@echo 'make conformance-act the same in act mode, also between two hosts'
	@echo 'make realapps        programs of Debian, native against preloaded'
	@echo 'make realapps-act    the same in act mode'
	@echo 'make findings        what mpitrace finds in the examples and Debian programs'
	@echo 'make test-slurm      srun on a single-node Slurm that the test starts'
	@echo 'make test-arm64      the C side for arm64, under emulation'
	@echo 'make test-debian13   act mode under Open MPI 5.0 and MPICH 4.2 (root)'
	@echo 'make test-vm         RDMA in virtual machines, longer than make test does'
	@echo 'make test-fabric-long  ten million operations of the fabric (hours)'
	@echo 'make test-act-long   random MPI programs, 10^8 messages with faults (hours)'
	@echo 'make test-stale      lose memory in every way, a million times (hours; root)'
	@echo 'make bench-memmon    what watching memory costs (root)'
	@echo 'make bench-overhead  added time per call, native and preloaded in turn'
	@echo 'make bench-report    results of up to 16,384 ranks into a report and a page'
	@echo 'make bench-fabric    the transport against MPI, bare sockets and the papers (root)'
	@echo 'make bench-act       act mode against the MPIs, on one host and between two (root)'
	@echo 'make bench-regcache  registration cache: hits, registering, reuse, eviction'
	@echo 'make bench-agent     processor time and memory of mpitrace agent (two minutes)'
	@echo 'make bench-top       what mpitrace top costs, on 128 to 4,096 ranks'
	@echo 'make install         into PREFIX=/usr/local (DESTDIR for packages); make uninstall'
	@echo 'make deb, make rpm   build/mpitrace_VERSION_ARCH.deb, .rpm'
	@echo 'make test-package    the packages in clean systems (needs root and the network)'

# For the same processor only: the runtime of act mode, and mpitrace-otf2 where the
# OTF2 library is (libopen-trace-format2-dev), whose flags its own tool knows, or
# pkg-config: not every Debian package of it has the tool.
OTF2_FLAGS := $(shell otf2-config --cflags --ldflags --libs 2>/dev/null || \
	pkg-config --cflags --libs otf2-backend 2>/dev/null)
HERE := $(filter $(shell $(CC) -dumpmachine),$(shell uname -m)-linux-gnu)
HERE_ONLY := $(if $(HERE),$(BUILD)/libmpishim-rt.so $(BUILD)/libmpishim-go.so \
	$(if $(OTF2_FLAGS),$(BUILD)/mpitrace-otf2))

build: $(BUILD)/libmpishim.so $(VARIANTS) command $(BUILD)/mpitrace-fabric $(HERE_ONLY)

# Linked without symbols, as it is installed.
$(BUILD)/mpitrace-fabric: $(wildcard c/fabric/*.[ch] c/fabric/*/*.[ch] c/include/*.h)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(NO_PATH) -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
		-Wmissing-prototypes -Werror -s -o $@.new $(filter %.c,$^) -lpthread -ldl
	mv $@.new $@

$(BUILD)/mpitrace-otf2: $(wildcard c/otf2/*.[ch])
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(NO_PATH) -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
		-Wmissing-prototypes -Werror -o $@.new c/otf2/*.c $(OTF2_FLAGS)
	mv $@.new $@

command:
	CGO_ENABLED=0 $(GO) build $(GO_FLAGS) -o $(BUILD)/mpitrace ./cmd/mpitrace

$(BUILD)/libmpishim.so: $(OBJECTS) c/gen/exports.map
	$(CC) $(CFLAGS) $(SHIM_LDFLAGS) -Wl,--version-script=c/gen/exports.map -o $@.new \
		$(OBJECTS) $(SHIM_LIBS)
	mv $@.new $@

$(VARIANTS): $(BUILD)/libmpishim-%.so: $(OBJECTS) c/gen/exports-%.map
	$(CC) $(CFLAGS) $(SHIM_LDFLAGS) -Wl,--version-script=c/gen/exports-$*.map -o $@.new \
		$(OBJECTS) $(SHIM_LIBS)
	mv $@.new $@

$(BUILD)/libmpishim-rt.so: $(RT_OBJECTS) c/act/exports.map
	$(CC) $(CFLAGS) $(NO_PATH) $(RT_LDFLAGS) -o $@.new $(RT_OBJECTS) -lpthread -ldl
	mv $@.new $@

$(BUILD)/obj/regservice.a: $(wildcard shim/regservice/*.go \
		shim/regservice/archive/*.go regcache/*.go c/regservice/*.h) go.sum
	@mkdir -p $(@D)
	CGO_ENABLED=1 CC='$(CC)' $(GO) build -buildmode=c-archive $(GO_RANK_FLAGS) \
		-o $@ ./shim/regservice/archive

# All of the archive: Go begins by a constructor that nothing refers to.
$(BUILD)/libmpishim-go.so: $(BUILD)/obj/regservice.a shim/regservice/archive/exports.map
	$(CC) $(CFLAGS) $(GO_RANK_LDFLAGS) -o $@.new -Wl,--whole-archive $< \
		-Wl,--no-whole-archive -lpthread
	mv $@.new $@

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(NO_PATH) $(SHIM_CFLAGS) -MMD -c -o $@ $<
$(BUILD)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(NO_PATH) -fPIC -c -o $@ $<

# The same source once per ABI; prototypes of wrappers are in no header.
PER_ABI_CFLAGS = $(SHIM_CFLAGS) -Wno-missing-prototypes
$(BUILD)/obj/openmpi/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(NO_PATH) $(PER_ABI_CFLAGS) -DMT_ABI_OPENMPI=1 -DMT_ABI_MPICH=0 \
		-MMD -c -o $@ $<
$(BUILD)/obj/mpich/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(NO_PATH) $(PER_ABI_CFLAGS) -DMT_ABI_OPENMPI=0 -DMT_ABI_MPICH=1 \
		-MMD -c -o $@ $<

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
# A header that is gone is not missed: what was made with it is made again.
%.h: ;

# ---- what must be installed ----

# $(call patiently,COMMAND): the network may be gone for some moments
patiently = for pause in 5 30 120 end; do $(1) && break; [ $$pause = end ] && exit 1; sleep $$pause; done

# $(call need,PACKAGES): installs what is missing, or says how
define need
@missing=; for p in $(1); do \
	dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'install ok' || missing="$$missing $$p"; done; \
if [ -n "$$missing" ]; then \
	if [ "$$(id -u)" = 0 ]; then \
		export DEBIAN_FRONTEND=noninteractive; \
		$(call patiently,apt-get update -qq && apt-get -o DPkg::Lock::Timeout=600 install \
			-y -qq --no-install-recommends $$missing >/dev/null); \
	else \
		echo "missing:$$missing"; \
		echo "  sudo apt-get update && sudo apt-get install --no-install-recommends$$missing"; exit 1; \
	fi; fi; \
command -v $(GO) >/dev/null || { echo "missing: Go 1.26 or newer, see https://go.dev/dl"; exit 1; }
endef

deps-build:
	$(call need,$(DEPS_BUILD))
deps-demo:
	$(call need,$(DEPS_DEMO))
deps-test:
	$(call need,$(DEPS_TEST))
# Before anything is tested: a test does not wait for the network.
modules:
	@$(call patiently,$(GO) list -deps -test ./... >/dev/null)
	@$(call patiently,$(GO) -C test/arrow list -deps . >/dev/null)

# ---- demo ----

$(BUILD)/examples/heat: examples/heat.c
	@mkdir -p $(@D)
	mpicc.openmpi -O2 -g -o $@ $< -lm
$(BUILD)/examples/heat_f08: examples/heat_f08.f90
	@mkdir -p $(@D)
	mpifort.openmpi -O2 -g -J $(@D) -o $@ $<

# Open MPI asks to be told that root is meant; more ranks than cores yield.
demo: deps-demo
	@$(MAKE) --no-print-directory $(AT_ONCE) build \
		$(BUILD)/examples/heat $(BUILD)/examples/heat_f08
	rm -rf $(BUILD)/demo
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
	$(BUILD)/mpitrace run -o $(BUILD)/demo -- mpirun.openmpi --oversubscribe \
		--mca mpi_yield_when_idle 1 -n 4 $(BUILD)/examples/heat -n 2048 --imbalance 1:3
	$(BUILD)/mpitrace report $(BUILD)/demo

# ---- tests ----

test: deps-test modules
	@$(MAKE) --no-print-directory $(AT_ONCE) build
	$(GO) run ./internal/runtests

c-test:
	$(GO) run ./internal/runtests -only c

generate:
	$(GO) run ./internal/gen
	$(GO) generate ./internal/memmon

pass-table: deps-test build
	$(GO) test ./test/passtable -count=1 -timeout 40m -args -table

conformance: deps-test build
	$(GO) run ./test/conformance

# In act mode: on this machine, and with the ranks on two hosts.
conformance-act: deps-test build
	$(GO) run ./test/conformance --act
	$(GO) run ./test/conformance --act --hosts 2

realapps: deps-test build
	$(GO) run ./test/realapps
realapps-act: deps-test build
	$(GO) run ./test/realapps --act
findings: deps-test build
	$(GO) run ./test/realapps --findings

test-slurm: build
	$(call need,$(DEPS_SLURM))
	MPITRACE_TEST_SLURM=1 $(GO) test ./test/launch -count=1 -run Slurm -v

# The library for arm64, loaded, and the C tests, both under emulation.
test-arm64:
	$(call need,$(DEPS_ARM64))
	$(MAKE) --no-print-directory BUILD=$(BUILD)/arm64 CC=aarch64-linux-gnu-gcc \
		$(BUILD)/arm64/libmpishim.so
	for t in arrival call regcache request reuse; do \
		aarch64-linux-gnu-gcc -std=gnu11 -O2 -D_GNU_SOURCE -static -o $(BUILD)/arm64/$$t \
			c/test/$${t}_test.c $(PROBE) c/regcache/front.c -lpthread && \
		qemu-aarch64-static $(BUILD)/arm64/$$t || exit 1; \
	done
	for t in fabric_paths fabric_ring iwarp shm_fuzz fault_script datagrams; do \
		aarch64-linux-gnu-gcc -std=gnu11 -O2 -D_GNU_SOURCE -static -o $(BUILD)/arm64/$$t \
			c/test/$${t}_test.c $$(sed -n '1s|^/[*] sources: \(.*\) [*]/$$|\1|p' c/test/$${t}_test.c) \
			-lpthread -ldl && \
		qemu-aarch64-static $(BUILD)/arm64/$$t || exit 1; \
	done
	echo 'int main(void) { return 0; }' | aarch64-linux-gnu-gcc -x c -o $(BUILD)/arm64/empty -
	qemu-aarch64-static -L /usr/aarch64-linux-gnu \
		-E LD_PRELOAD=$(CURDIR)/$(BUILD)/arm64/libmpishim.so $(BUILD)/arm64/empty

# The fabric, and act mode by each of its ways, on real verbs: Soft-RoCE in guests.
# make test has less of the same: some faults, tests under the sanitizers and jobs, and
# fewer random operations.
test-vm: deps-test build
	$(GO) test ./test/vm -count=1 -timeout 6h -v -args -long

# Ten million random operations for each software device, every sanitizer with
# every engine, and a peer killed behind each instruction over shared memory.
test-fabric-long: deps-test build
	$(GO) test ./test/fabric -count=1 -timeout 12h -v -args -long

# Programs, and random ones, by every way, then ACT_MESSAGES checked messages with faults.
ACT_MESSAGES ?= 100000000
test-act-long: deps-test build
	$(GO) test ./test/act -run 'Random|Programs' -count=1 -timeout 48h -v -args -long \
		-messages $(ACT_MESSAGES)

# With the MPI libraries of Debian 13, in a folder with such a system.
test-debian13: deps-test build
	$(call need,debootstrap)
	$(GO) run ./test/debian13
	$(GO) run ./test/debian13 ./test/launch -run Functions

# 0 stale registrations in a million cycles of each way to lose memory.
test-stale: deps-test
	$(GO) test ./test/stale -count=1 -v -timeout 12h -args -cycles 1000000

bench-memmon: deps-test
	$(GO) run ./bench/memmon

bench-overhead: deps-test build
	$(GO) run ./bench/overhead

# Shared memory against the MPIs, in turn; sockets, connections, rails, memory,
# registrations beside what was published; and two hosts against bare sockets.
bench-fabric: deps-test build
	$(GO) run ./bench/fabric
	$(GO) test ./test/fabric -count=1 -run PingPong -v -args -turns 501

# Act mode against both MPIs, each run of ours beside a native one.
bench-act: deps-test build
	$(call need,hpcc lammps lammps-examples)
	$(GO) run ./bench/act

bench-regcache: deps-build
	$(GO) run ./bench/regcache

# Results of 1,024, 4,096 and 16,384 ranks into a report and an HTML page: time
# and memory; and when a browser has the page ready.
bench-report:
	$(GO) test ./report -run '^$$' -bench Report -benchtime 3x
	$(GO) test ./report/page -run '^$$' -bench Page -benchtime 3x
	$(call need,chromium)
	$(GO) test ./report/page -run '^$$' -bench Interactive -benchtime 5x

# mpitrace top on synthetic jobs: percent of one core at 128 ranks and 5 s
# between refreshes, and what one refresh takes of up to 4,096 ranks.
bench-top:
	$(GO) test ./internal/top -run '^$$' -bench Top -benchtime 1x -count 3
	$(GO) test ./internal/top -run '^$$' -bench Refresh -benchtime 5x

# 128 living ranks, scraped every 5 s.
bench-agent: command
	$(GO) run ./bench/agent

include packaging/packaging.mk

clean:
	rm -rf $(BUILD)
