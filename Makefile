# `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help build run run-teams test test-replicas matrix manifests interop screenreader lint fmt fuzz bench bench-go bin/measure bin/promptweir bin/stress measure faults faults-short overload cluster cluster-short histories histories-short simulation simulation-short planted planted-simulation mutants hostile-team stranger pictures release release-check check

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

run-teams: build ## serve examples/teams, with the example servers that it needs; its README walks through it
	@bin/together bin/handbook -change-every 0 + bin/promptweir serve --config examples/teams

# Under the race detector, a case of a property costs ten times as much. Tests wait for much of their time, so three packages run on two
# processors, and those that take longest first.
test: export RAPID_CHECKS ?= 25
test: PACKAGES_AT_ONCE = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
test: ## run all tests that need only Go; with a real store if redis-server or valkey-server is installed
	CGO_ENABLED=1 go test -race -shuffle=on -ldflags='-s -w' -p=$(PACKAGES_AT_ONCE) ./upstream ./gateway ./gateway/transport ./...

test-replicas: ## test what replicas share, as on a machine without redis-server and valkey-server
	CLUSTERTEST_MEMORY=1 CGO_ENABLED=1 go test -race ./gateway/cluster/... ./gateway -run '$(shell sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' gateway/replicas_test.go gateway/cluster/*_test.go | paste -sd '|' -)'

matrix: ## print which clients and upstreams, of all revisions and transports, were tested with each other
	@mkdir -p bin
	@go test -count=1 -v -run TestMatrix_AllClientsWithAllUpstreams ./gateway/transport >bin/matrix.txt || { cat bin/matrix.txt; exit 1; }
	@grep -vE '^ *(===|---|PASS|ok)' bin/matrix.txt

manifests: ## test the manifests, dashboard, alert rules and the configuration of Envoy in examples, with gateways; needs Prometheus and redis-server or valkey-server
	go -C examples/kubernetes test -count=1 ./...
	go -C examples/grafana test -count=1 ./...
	go -C examples/proxies test -count=1 ./...

interop: ## test with other clients, servers and tools and the MCP conformance suite; needs Node 22.19 or later, Chromium, HAProxy, nginx and promtool
	cd examples/interop && npm ci --ignore-scripts
	go -C examples/interop test -v -count=1 -timeout 15m ./...
	go test -tags interop -v -count=1 -run PassPromtool ./cmd/promptweir

screenreader: ## walk the console by keyboard with the screen reader Orca in Chromium; needs Node 22 and Debian's chromium, orca, xvfb, dbus, at-spi2-core, openbox and xdotool
	go -C examples/interop test -tags screenreader -v -count=1 -timeout 15m -run WithAScreenReader .

lint: ## run the linters, with the import rules of .golangci.yml
	$(TOOL) golangci-lint run

fmt: ## format all Go code
	$(TOOL) golangci-lint fmt

fuzz: ## run each fuzz target: FUZZTIME=1m
	bash .ci/fuzz $(FUZZTIME)

# A heading with the time, machine, Go version and commit of a measurement: $(call ABOUT,title).
define ABOUT
	@printf '\n## %s\n\n%s, %s, %s cores, %s, commit %s\n\n' '$(1)' "$$(date -u '+%F %R UTC')" "$$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" \
		"$$(nproc)" "$$(go env GOVERSION)" "$$(git describe --always --dirty --exclude='*' 2>/dev/null)"
endef

bench: ## run the Go benchmarks, speed and memory, in ten minutes; the output is also in bin/bench.md
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
measure: bin/measure ## compare with a reverse proxy and others, or with an older build: MEASURE='pairs -against FILE -only ^get'
	$(call ABOUT,$(MEASURE))
	@bin/measure $(MEASURE)

measure-%:
	@$(MAKE) -s --no-print-directory measure MEASURE=$*

FAULTS ?= -write upstream/README.md
faults: bin/stress ## make servers fail in every way, and write the table of upstream/README.md: FAULTS='-only HTTP'
	@bin/stress faults $(FAULTS)

# Those that a CI machine of two cores has time for.
FAULTS_SHORT := -busy -only '^(killed|stopped|forgets its sessions|restarts with another list|connections reset|half-open from the server|HTTP 401|HTTP 500|truncated JSON|child killed|child stopped|child crashing)$$'
faults-short: FAULTS = $(FAULTS_SHORT)
faults-short: faults ## the same with a few faults, in a minute

overload: bin/stress ## offer a server more than it can answer: OVERLOAD=-busy
	$(call ABOUT,Overload)
	@bin/stress overload $(OVERLOAD)

cluster: bin/stress ## break what three gateways with a store share; needs HAProxy and redis-server or valkey-server: CLUSTER='-only ^store'
	$(call ABOUT,Several replicas)
	@bin/stress cluster $(CLUSTER)

# What a CI machine of two cores has time for.
cluster-short: CLUSTER = -busy -short -only '^(rate|rolling restart|store is killed)'
cluster-short: cluster ## the same in half a minute

HISTORIES ?= -length 10m
histories: bin/stress ## check what 36 clients recorded while three replicas, their store and their servers break: HISTORIES='-seed 7 -length 1h'
	$(call ABOUT,Histories)
	@bin/stress histories $(HISTORIES)

histories-short: HISTORIES = -busy -short -length 1m -seed 5
histories-short: histories ## the same for a minute

# Whole gateways in virtual time. The overlay gives them a network in memory.
SIMULATED := CGO_ENABLED=0 GOGC=off GOMEMLIMIT=1GiB go test -count=1 -timeout 30m ./gateway/gatewaytest/simulation
SIMULATION ?= -histories 10000
simulation: ## check 10 000 histories of whole gateways in virtual time, in ten minutes: SIMULATION='-histories 1 -seed 7'
	@$(SIMULATED) -overlay "$$(bash .ci/plant network)" -args $(SIMULATION)

simulation-short: SIMULATION = -histories 500
simulation-short: simulation ## the same with 500

# Defects that are planted on purpose. The first word of each patch is the letter of the violation that must be found.
PLANTED ?= announce-early forget-last skip-again older-snapshot old-policy count-twice count-never foreign-owner kept-rule
planted: HISTORIES = -length 10m -seed 1
planted: bin/stress ## check that histories find each of nine planted defects, within ten minutes: PLANTED=forget-last
	@for defect in $(PLANTED); do \
		letter=$$(sed 's/:.*//;q' .ci/planted/$$defect.patch) && echo "=== $$defect: $$letter" && \
		$(BUILD) build $(BUILD_FLAGS) -overlay "$$(bash .ci/plant $$defect)" -o bin/_planted/promptweir ./cmd/promptweir && \
		bin/stress histories -build bin/_planted/promptweir -want $$letter $(HISTORIES) || exit; done

planted-simulation: PLANTED = announce-early forget-last older-snapshot old-policy
planted-simulation: ## check that the simulation finds each of four planted defects, in 500 histories
	@for defect in $(PLANTED); do \
		letter=$$(sed 's/:.*//;q' .ci/planted/$$defect.patch) && echo "=== $$defect: $$letter" && \
		found=$$($(SIMULATED) -overlay "$$(bash .ci/plant network $$defect)" -v -args -histories 500 -want $$letter) || { echo "$$found" | tail -n 5; exit 1; }; \
		echo "$$found" | grep -A 8 'found in' | grep -v '^ *\(===\|---\)'; done

# Gremlins takes no case of a switch for covered, and builds once for each mutant.
mutants: ## want the tests to find each operator that is changed in policy, seal, identity, catalog, screen and lock: MUTANTS=gateway/seal
	@CGO_ENABLED=0 go run -modfile=.ci/tools.mod ./.ci/mutants $(MUTANTS)

hostile-team: bin/stress ## 50 people beside a team whose prompt files cost as much as they can: STRESS=-busy
stranger: bin/stress ## 50 people beside somebody who is refused, and keeps connections silent: STRESS=-busy
hostile-team stranger:
	$(call ABOUT,$@)
	@bin/stress $@ $(STRESS)

pictures: build ## take the pictures in README.md and examples/bench; needs Chromium, termtosvg and gnuplot
	bash .ci/pictures
	bash .ci/recording
	bash .ci/plot

release: ## build archives, deb, rpm, checksums and bills of materials into bin/release: VERSION=v1.0.0
	bash .ci/release '$(VERSION)'

release-check: ## build a release twice, install it in an empty root, start, reload and stop it; needs Debian and root
	bash .ci/release-check

check: ## run everything that CI runs
	bash .ci/run
