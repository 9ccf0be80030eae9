# `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help build run run-teams test test-replicas matrix manifests interop screenreader lint fmt fuzz bench bench-go bench-speed bench-pairs bench-recording bench-fanout bench-outage faults faults-short overload cluster cluster-short pictures release release-check check

# The output of `promptweir version`. Without git it is empty, and the binary uses its build information.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell git show -s --format=%cI HEAD 2>/dev/null)

# Tools have a module file of their own, so that go.mod lists only the dependencies that ship.
TOOL := go tool -modfile=.ci/tools.mod

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

build: ## build bin/promptweir, statically linked, and the example servers
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)' -o bin/promptweir ./cmd/promptweir
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ ./examples/servers/... ./examples/together

run: build ## serve examples/quickstart in the foreground; Ctrl-C stops it
	@bin/promptweir serve --config examples/quickstart

run-teams: build ## serve examples/teams, with the example servers that it needs; its README walks through it
	@bin/together bin/handbook -change-every 0 + bin/promptweir serve --config examples/teams

test: ## run all tests that need only Go
	go test -race -shuffle=on ./...

# All tests that need the store: those of the files that are built with it.
STORE_TESTS = $(shell grep -l '^//go:build store' gateway/*_test.go gateway/requests/*_test.go gateway/transport/*_test.go | xargs sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' | paste -sd '|' -)

test-replicas: ## test what replicas share, with a real store; needs redis-server or valkey-server
	go test -race -tags store -parallel 8 ./gateway/cluster/... # most of them wait for the store
	go test -race -tags store -run '^($(STORE_TESTS))$$' ./gateway ./gateway/requests ./gateway/transport

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

bench: ## run all measurements, in less than ten minutes; the output is also in bin/bench.md
	@mkdir -p bin
	@bash -o pipefail -c "$(MAKE) -s --no-print-directory bench-go bench-speed bench-fanout | tee bin/bench.md"

# A heading with the time, machine, Go version and commit of a measurement: $(call ABOUT,title).
define ABOUT
	@printf '\n## %s\n\n%s, %s, %s cores, %s, commit %s\n\n' '$(1)' "$$(date -u '+%F %R UTC')" "$$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" \
		"$$(nproc)" "$$(go env GOVERSION)" "$$(git describe --always --dirty --exclude='*' 2>/dev/null)"
endef

# Benchmarks whose iterations wait for longer than they work run a fixed number of iterations, those that measure memory run one. Both
# take long to set up: they run three times.
FIXED := BenchmarkPublish|BenchmarkChange
MEMORY := Memory

bench-go: ## run the Go benchmarks
	@mkdir -p bin
	$(call ABOUT,Go benchmarks)
	@go test -run '^$$' -bench . -skip '$(FIXED)|$(MEMORY)' -benchtime 0.1s -benchmem -count 6 ./... >bin/bench.txt
	@go test -run '^$$' -bench '$(FIXED)' -benchtime 20x -benchmem -count 3 ./gateway >>bin/bench.txt
	@go test -run '^$$' -bench '$(MEMORY)' -benchtime 1x -count 3 ./gateway/... >>bin/bench.txt
	@echo '```' && $(TOOL) benchstat bin/bench.txt && echo '```'

bench-speed: build ## compare with a bare handler, a reverse proxy and a gateway on the Go SDK: SPEED='-only ^get'
	@CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./speed ./reference
	$(call ABOUT,Speed)
	@bin/speed $(SPEED)

PAIRS ?= -pairs 30
bench-pairs: build ## compare with an older build: OLD=path/to/promptweir PAIRS='-pairs 15 -only ^get'
	@test -x '$(OLD)' || { echo 'bench-pairs: set OLD to an older build of promptweir' >&2; exit 1; }
	@CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./speed ./reference
	$(call ABOUT,Pairs)
	@bin/speed -against '$(OLD)' $(PAIRS)

bench-recording: build ## measure what the audit log, traces, logs and metrics cost a get: PAIRS='-pairs 15 -only 2026'
	@CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./speed ./reference
	$(call ABOUT,Recording)
	@bin/speed -everything $(PAIRS)

FANOUT ?= -rounds 5
bench-fanout: build ## measure 1 000 and 10 000 listening clients: FANOUT='-rounds 20' for more changes
	@CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./fanout ./bare
	$(call ABOUT,Fan-out)
	@set -e; for listeners in 1000 10000; do for era in '' -legacy; do \
		echo '```'; bin/fanout -listeners $$listeners $$era $(FANOUT); echo '```'; echo; done; done

bench-outage: build ## measure 2 000 team files with 10 000 upstreams that are all down: OUTAGE='-strict' fails where a target is missed
	@CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./outage
	$(call ABOUT,Outage)
	@bin/outage $(OUTAGE)

# What stands between the gateway and servers in the faults.
bin/toxiproxy-server: .ci/tools.mod
	CGO_ENABLED=0 go build -modfile=.ci/tools.mod -trimpath -buildvcs=false -o bin/toxiproxy-server github.com/Shopify/toxiproxy/v2/cmd/server

FAULTS ?= -write upstream/README.md
faults: build bin/toxiproxy-server ## let servers fail in all ways, and write what happens into upstream/README.md; needs HAProxy: FAULTS='-only HTTP'
	CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./faults
	@bin/faults $(FAULTS)

# Those that a CI machine of two cores has time for.
FAULTS_SHORT := -busy -wards 4 -only '^(killed|stopped|forgets its sessions|restarts with another list|connections reset|half-open from the server|HTTP 401|HTTP 500|truncated JSON|child killed|child stopped|child crashing)$$$$'
faults-short: FAULTS = $(FAULTS_SHORT)
faults-short: faults ## the same with a few faults that need no HAProxy, in a minute

OVERLOAD ?=
overload: build ## offer the gateway more than it can answer, on one core: OVERLOAD='-against path/to/promptweir -only gateway'
	@CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./overload ./reference
	$(call ABOUT,Overload)
	@taskset -c 1-$$(($$(nproc) - 1)) bin/overload -core 0 $(OVERLOAD)

CLUSTER ?=
cluster: build bin/toxiproxy-server ## run three gateways with a store behind HAProxy, and check what they promise together, in a quarter of an hour; needs both: CLUSTER='-only ^store'
	CGO_ENABLED=0 go -C examples/bench build -trimpath -buildvcs=false -o ../../bin/ ./cluster
	$(call ABOUT,Several replicas)
	@bin/cluster $(CLUSTER)

# What a CI machine of two cores has time for, in half a minute.
cluster-short: CLUSTER = -busy -short -only '^(pages|rate|concurrency|end|replies|posts|cancellation|streams|store is killed)'
cluster-short: cluster ## the same in half a minute

pictures: build ## take the console's pictures for README.md; needs Chromium
	bash .ci/pictures

release: ## build archives, deb, rpm, checksums and bills of materials into bin/release: VERSION=v1.0.0
	bash .ci/release '$(VERSION)'

release-check: ## build a release twice, install it in an empty root, start, reload and stop it; needs Debian and root
	bash .ci/release-check

check: ## run everything that CI runs
	bash .ci/run
