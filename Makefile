# make demo   builds, runs the example under Open MPI and prints its report
# make test   all tests that .ci/run runs
# make help   every target

BUILD  := build
CC     ?= gcc
CFLAGS ?= -O2 -g
# -fno-semantic-interposition and hidden visibility: only exports.map leaves
SHIM_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -fno-plt -fexceptions \
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
SHIM_LDFLAGS := -shared -static-libgcc -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined \
	-Wl,--version-script=c/gen/exports.map -Wl,-soname,libmpishim.so

PLAIN := $(wildcard c/probe/*.c) $(filter-out c/pmpi/handles.c,$(wildcard c/pmpi/*.c)) c/gen/names.gen.c
PER_ABI := c/pmpi/handles.c c/gen/wrappers.gen.c
OBJECTS := $(PLAIN:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/c/gen/entries.gen.o \
	$(PER_ABI:%.c=$(BUILD)/obj/openmpi/%.o) $(PER_ABI:%.c=$(BUILD)/obj/mpich/%.o)

.PHONY: all build
all: build
build: $(BUILD)/libmpishim.so

$(BUILD)/libmpishim.so: $(OBJECTS) c/gen/exports.map
	$(CC) $(CFLAGS) $(SHIM_LDFLAGS) -o $@ $(OBJECTS) -ldl -lpthread

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SHIM_CFLAGS) -MMD -c -o $@ $<
$(BUILD)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC -c -o $@ $<
$(BUILD)/obj/openmpi/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SHIM_CFLAGS) -Wno-missing-prototypes -DMT_ABI_OPENMPI=1 -DMT_ABI_MPICH=0 -MMD -c -o $@ $<
$(BUILD)/obj/mpich/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SHIM_CFLAGS) -Wno-missing-prototypes -DMT_ABI_OPENMPI=0 -DMT_ABI_MPICH=1 -MMD -c -o $@ $<

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
