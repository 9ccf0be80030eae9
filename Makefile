# `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help build run run-teams test race matrix manifests interop interop-short node-modules lint fmt fuzz bench bench-go bin/measure bin/promptweir bin/stress measure faults faults-short overload histories histories-short nightly pictures release publish tagged release-check check

# The output of `promptweir version`. Without git it is empty, and the binary uses its build information.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell git show -s --format=%cI HEAD 2>/dev/null)

# Nobody debugs what make builds. Without the debugger's tables, the compiler needs a seventh less; traces stay the same.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

# The compiler collects its own garbage for a fifth of a cold build. With thrice the heap it seldom does.
BUILD := CGO_ENABLED=0 GOGC=300 go
BUILD_FLAGS := -trimpath -buildvcs=false

# Tools have a module file of their own, so that go.mod lists only the dependencies that ship.
TOOL := go tool -modfile=.ci/tools.mod

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

build: bin/promptweir ## build bin/promptweir, statically linked, and the example servers
	$(BUILD) build $(BUILD_FLAGS) -o bin/ ./examples/servers/... ./examples/together

# The program alone: the quickstart needs no server, and a newcomer waits for the compiler.
bin/promptweir:
	@[ -e $@ ] || echo 'A first build takes a minute or two. Meanwhile, read a prompt and who sees it: examples/quickstart/teams'
	$(BUILD) build $(BUILD_FLAGS) -tags grpcnotrace -ldflags='-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)' -o $@ ./cmd/promptweir

# It is tried, not deployed: a first build takes a fifth less time where nothing is optimised.
run: BUILD_FLAGS += '-gcflags=all=-N -l -dwarf=false'
run: bin/promptweir ## serve examples/quickstart in the foreground; Ctrl-C stops it
	@bin/promptweir serve --config examples/quickstart

run-teams: build ## serve examples/teams, with the example servers that it needs
	@bin/together bin/handbook -change-every 0 + bin/promptweir serve --config examples/teams

# A property is tried with few cases: nightly tries more. Tests wait for much of their time, so three packages run on two processors, and
# those that take longest first.
test race: export RAPID_CHECKS ?= 25
test race: PACKAGES_AT_ONCE = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
test: ## run all tests that need only Go, without the race detector; with a real store if redis-server or valkey-server is installed
	CGO_ENABLED=0 go test -shuffle=on -ldflags='-s -w' -p=$(PACKAGES_AT_ONCE) ./upstream ./gateway ./gateway/transport ./...

# The packages that start goroutines, apart from commands. An example server that starts one is tested in examples.
RACE ?= ./upstream/... ./gateway ./gateway/transport ./gateway/audit ./gateway/cluster/... ./gateway/edge ./gateway/identity ./gateway/publish ./gateway/requests ./gateway/snapshot ./config/watch ./cmd/promptweir/internal/...
race: ## run the tests of the packages that start goroutines under the race detector, which needs a C compiler
	CGO_ENABLED=1 go test -race -vet=off -shuffle=on -ldflags='-s -w' -p=$(PACKAGES_AT_ONCE) $(RACE)

matrix: ## print which clients and upstreams, of all revisions and transports, were tested with each other
	@mkdir -p bin
	@go test -count=1 -v -run TestMatrix_AllClientsWithAllUpstreams ./gateway/transport >bin/matrix.txt || { cat bin/matrix.txt; exit 1; }
	@grep -vE '^ *(===|---|PASS|ok)' bin/matrix.txt

manifests: ## test the manifests, dashboard, alert rules and the configuration of Envoy in examples, with gateways; needs Prometheus and redis-server or valkey-server
	go -C examples/kubernetes test -count=1 ./...
	go -C examples/grafana test -count=1 ./...
	go -C examples/proxies test -count=1 ./...

# npm writes this file last.
NODE_MODULES := examples/interop/node_modules/.package-lock.json
node-modules: $(NODE_MODULES)
$(NODE_MODULES): examples/interop/package-lock.json
	cd examples/interop && npm ci --ignore-scripts

interop: $(NODE_MODULES) ## test with other clients, servers and tools and the MCP conformance suite; needs Node 22.19 or later, Chromium, HAProxy, nginx and promtool
	go -C examples/interop test -v -count=1 -timeout 15m $(INTEROP) ./...
	go test -tags interop -v -count=1 -run PassPromtool ./cmd/promptweir

interop-short: INTEROP := -short
interop-short: interop ## the same without slow clients, proxies and repetitions, in half of the time

lint: ## run the linters, with the import rules of .golangci.yml, and check the format and the English of comments
	.ci/lint

fmt: ## format all Go code
	$(TOOL) golangci-lint fmt

fuzz: ## run each fuzz target: FUZZTIME=1m
	bash .ci/fuzz $(FUZZTIME)

# A heading with the time, machine, Go version and commit of a measurement: $(call ABOUT,title).
define ABOUT
	@printf '\n## %s\n\n%s, %s, %s cores, %s, commit %s\n\n' '$(1)' "$$(date -u '+%F %R UTC')" "$$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" \
		"$$(nproc)" "$$(go env GOVERSION)" "$$(git describe --always --dirty --exclude='*' 2>/dev/null)"
endef

bench: ## run the Go benchmarks, speed and memory, in half an hour; the output is also in bin/bench.md
	@mkdir -p bin
	@bash -o pipefail -c "$(MAKE) -s --no-print-directory bench-go measure-speed measure-memory | tee bin/bench.md"

# Benchmarks that measure memory run one iteration. They take long to set up: they run three times.
MEMORY := Memory

bench-go:
	@mkdir -p bin
	$(call ABOUT,Go benchmarks)
	@go test -run '^$$' -bench . -skip '$(MEMORY)' -benchtime 0.1s -benchmem -count 6 ./... >bin/bench.txt
	@go test -run '^$$' -bench '$(MEMORY)' -benchtime 1x -count 3 ./gateway/... >>bin/bench.txt
	@echo '```' && $(TOOL) benchstat bin/bench.txt && echo '```'

# The rigs are in a module of their own.
bin/measure bin/stress: build
	@$(BUILD) -C examples/bench build $(BUILD_FLAGS) -o ../../$@ ./$(@F)

MEASURE ?= speed
measure: bin/measure ## compare with a reverse proxy and others, or with an older build: MEASURE='speed -against FILE -only ^get'
	$(call ABOUT,$(MEASURE))
	@bin/measure $(MEASURE)

measure-%:
	@$(MAKE) -s --no-print-directory measure MEASURE=$*

FAULTS ?= -write upstream/README.md
faults: bin/stress ## make servers fail in every way, and write the table of upstream/README.md: FAULTS='-only HTTP'
	@bin/stress faults $(FAULTS)

# The faults that a CI machine of two cores has time for.
FAULTS_SHORT := -busy -only '^(killed|stopped|forgets its sessions|restarts with another list|connections reset|half-open from the server|HTTP 401|HTTP 500|truncated JSON|child killed|child stopped|child crashing)$$'
faults-short: FAULTS = $(FAULTS_SHORT)
faults-short: faults ## the same with a few faults, in a minute

overload: bin/stress ## offer a server more than it can answer: OVERLOAD=-busy
	$(call ABOUT,Overload)
	@bin/stress overload $(OVERLOAD)

HISTORIES ?= -length 10m
histories: bin/stress ## check what 36 clients recorded while three replicas, their store and their servers break: HISTORIES='-seed 7 -length 1h'
	$(call ABOUT,Histories)
	@bin/stress histories $(HISTORIES)

histories-short: HISTORIES = -busy -short -length 30s -seed 5
histories-short: histories ## the same for half a minute

# What CI has no time for: most of an hour on two cores.
nightly: ## run the long rigs, longer fuzzing and more cases of each property
	GOOS=windows GOARCH=386 go vet '-gcflags=all=-N -l -dwarf=false' ./...
	GOOS=darwin GOARCH=arm64 go vet '-gcflags=all=-N -l -dwarf=false' ./...
	$(MAKE) test RAPID_CHECKS=1000
	$(MAKE) race RAPID_CHECKS=100
	$(MAKE) manifests
	.ci/lint examples/bench examples/grafana examples/interop examples/interop/collector examples/kubernetes examples/proxies
	$(MAKE) interop
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean --skip=docker
	$(MAKE) release-check
	$(MAKE) faults
	$(MAKE) overload
	$(MAKE) histories
	$(MAKE) fuzz FUZZTIME=30s

pictures: build ## take the pictures in README.md and examples/bench; needs Chromium, termtosvg and gnuplot
	bash .ci/pictures
	bash .ci/recording
	bash .ci/plot

GORELEASER := go tool -modfile=.ci/goreleaser.mod goreleaser

release: tagged ## build archives, deb, rpm, checksums and bills of materials into bin/release, on a commit with a tag: VERSION=v1.0.0
	@echo 'Builds $(VERSION) into bin/release, without the images. It publishes nothing: a pushed tag does.'
	GORELEASER_CURRENT_TAG='$(VERSION)' $(GORELEASER) release --clean --skip=announce,docker,homebrew,publish

publish: tagged ## build and publish a release with its images and the Homebrew formula; for the workflow on a tag
	GORELEASER_CURRENT_TAG='$(VERSION)' $(GORELEASER) release --clean

tagged:
	@git tag --points-at HEAD | grep -qxF -e '$(VERSION)' || { echo "release: this commit has no tag '$(VERSION)'; check out the tag, or make it: git tag -a v1.0.0" >&2; exit 2; }

release-check: ## build a release twice, install it in an empty root, start, reload and stop it; needs Debian and root
	bash .ci/release-check

check: ## run everything that CI runs
	bash .ci/run
