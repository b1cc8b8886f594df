# Installing and packaging; what is installed is listed in packaging/files.

VERSION := $(shell cat VERSION)
STAGE   := $(BUILD)/stage
ARCH     = $(or $(GOARCH),$(shell $(GO) env GOARCH))
# by the compiler, so that CC=aarch64-linux-gnu-gcc brings its own
STRIP    = $(shell $(CC) -print-prog-name=strip)
RPM_ARCH = $(patsubst amd64,x86_64,$(patsubst arm64,aarch64,$(ARCH)))
DEB      = $(BUILD)/mpitrace_$(VERSION)_$(ARCH).deb
RPM      = $(BUILD)/mpitrace_$(VERSION)_$(RPM_ARCH).rpm

DEPS_DEB     := $(DEPS_BUILD) dpkg gzip
DEPS_RPM     := $(DEPS_BUILD) rpm gzip
DEPS_PACKAGE := $(DEPS_TEST) $(DEPS_DEB) $(DEPS_RPM) debootstrap lintian $(DEPS_ARM64)

# The same commit gives the same packages: every date in them is this one.
ifndef SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)
endif
export SOURCE_DATE_EPOCH

.PHONY: stage manual install uninstall deb rpm test-package deps-deb deps-rpm deps-package

# Man pages and completions come from the command itself; when it is built for
# another processor, from the same built for this one.
SELF = env -u GOARCH CGO_ENABLED=0 $(GO) run $(GO_FLAGS) ./cmd/mpitrace

manual:
	rm -rf $(BUILD)/man $(BUILD)/completions
	$(SELF) man $(BUILD)/man
	mkdir -p $(BUILD)/completions
	$(SELF) completion bash >$(BUILD)/completions/mpitrace
	$(SELF) completion zsh >$(BUILD)/completions/_mpitrace
	$(SELF) completion fish >$(BUILD)/completions/mpitrace.fish
	GO='$(GO)' sh packaging/licenses ./cmd/mpitrace >$(BUILD)/third-party-licenses.txt

stage: build manual
	BUILD='$(BUILD)' VERSION='$(VERSION)' STRIP='$(STRIP)' OPTIONAL='$(OPTIONAL)' \
		sh packaging/stage $(STAGE)

install uninstall: OPTIONAL := yes
install: stage
	sh packaging/install $(STAGE) '$(DESTDIR)' '$(PREFIX)'

uninstall: stage
	sh packaging/uninstall $(STAGE) '$(DESTDIR)$(PREFIX)'

# other systems than Debian bring these tools in packages of other names
deps-deb:
	$(if $(shell command -v dpkg-deb),,$(call need,$(DEPS_DEB)))
deps-rpm:
	$(if $(shell command -v rpmbuild),,$(call need,$(DEPS_RPM)))
deps-package:
	$(call need,$(DEPS_PACKAGE))

deb: deps-deb stage
	VERSION='$(VERSION)' ARCH='$(ARCH)' sh packaging/deb/build $(STAGE) $(BUILD)/deb '$(DEB)'

rpm: deps-rpm stage
	VERSION='$(VERSION)' ARCH='$(RPM_ARCH)' sh packaging/rpm/build $(STAGE) $(BUILD)/rpm '$(RPM)'

# In a chroot of Debian that the test makes: as root, with the network.
test-package: deps-package deb rpm
	MPITRACE_TEST_PACKAGE=1 $(GO) test ./test/package -count=1 -timeout 40m -v
