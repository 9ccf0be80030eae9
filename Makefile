# `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help build run run-teams test matrix interop lint fmt fuzz bench bench-go bench-speed bench-pairs bench-fanout pgo soak figures check

# What `promptweir version` says; empty without git, and then the binary asks its build information.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# Tools have a module file of their own, so that go.mod lists only what ships.
TOOL := go tool -modfile=.ci/tools.mod

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

build: ## bin/promptweir, static, and the example servers beside it
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(VERSION)' -o bin/promptweir ./cmd/promptweir
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ ./examples/servers/... ./examples/together

run: build ## serve examples/quickstart in the foreground; Ctrl-C ends it and all that it started
	@bin/together bin/handbook + bin/promptweir serve --config examples/quickstart

run-teams: build ## serve examples/teams likewise; its README walks through it
	@bin/together bin/handbook -change-every 0 + bin/promptweir serve --config examples/teams

test: ## every test that needs nothing but Go
	go test -race -shuffle=on ./...

matrix: ## a table of clients and upstreams of all revisions over all transports, played against each other
	@mkdir -p bin
	@go test -count=1 -v -run TestEveryRevisionBeforeEveryOther ./gateway >bin/matrix.txt || { cat bin/matrix.txt; exit 1; }
	@grep -vE '^ *(===|---|PASS|ok)' bin/matrix.txt

interop: ## real clients and servers, and the official conformance suite, against the gateway; needs Node 22.19 or later, and Chromium
	cd examples/interop && npm ci --ignore-scripts
	go test -tags interop -v -count=1 -timeout 5m ./examples/interop/...

lint: ## linters and the layout rules of .golangci.yml
	$(TOOL) golangci-lint run

fmt: ## format all Go code
	$(TOOL) golangci-lint fmt

fuzz: ## run each fuzz target for a while: make fuzz FUZZTIME=1m
	bash .ci/fuzz $(FUZZTIME)

bench: ## all measurements, in less than ten minutes; bin/bench.md keeps what they print
	@mkdir -p bin
	@bash -o pipefail -c "$(MAKE) -s --no-print-directory bench-go bench-speed bench-fanout | tee bin/bench.md"

# What is measured by which Go, where and when: $(call ABOUT,title).
define ABOUT
	@printf '\n## %s\n\n%s, %s, %s cores, %s, commit %s\n\n' '$(1)' "$$(date -u '+%F %R UTC')" "$$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" \
		"$$(nproc)" "$$(go env GOVERSION)" "$$(git describe --always --dirty --exclude='*' 2>/dev/null)"
endef

# Benchmarks that wait between two turns for longer than a turn takes, so that they run a fixed number, and those that
# weigh what was made in one turn. Both take long to set up: they run three times, and only their growth is shown.
TURNS := BenchmarkPublish|BenchmarkChange
WEIGHED := Memory

bench-go: ## the Go benchmarks, six times each, summarised, and how they grow with the catalog
	@mkdir -p bin
	$(call ABOUT,Go benchmarks)
	@go test -run '^$$' -bench . -skip '$(TURNS)|$(WEIGHED)' -benchtime 0.1s -benchmem -count 6 ./... >bin/bench.txt
	@echo '```' && $(TOOL) benchstat bin/bench.txt && echo '```'
	@go test -run '^$$' -bench '$(TURNS)' -benchtime 20x -benchmem -count 3 ./gateway >>bin/bench.txt
	@go test -run '^$$' -bench '$(WEIGHED)' -benchtime 1x -count 3 ./gateway/... >>bin/bench.txt
	@echo && echo '```' && go run ./examples/bench/growth <bin/bench.txt && echo '```'

bench-speed: build ## requests per second and CPU beside a bare handler, a reverse proxy and the Go SDK: SPEED='-only ^get'
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ ./examples/bench/speed ./examples/bench/reference
	$(call ABOUT,Speed)
	@bin/speed $(SPEED)

PAIRS ?= -pairs 30
bench-pairs: build ## the gateway against an older build of it, in pairs: OLD=path/to/promptweir PAIRS='-pairs 15 -only ^get'
	@test -x '$(OLD)' || { echo 'bench-pairs wants OLD=path/to/promptweir' >&2; exit 1; }
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ ./examples/bench/speed ./examples/bench/reference
	$(call ABOUT,Pairs)
	@bin/speed -against '$(OLD)' $(PAIRS)

FANOUT ?= -rounds 5
bench-fanout: build ## 1 000 and 10 000 listening clients of both eras: FANOUT='-rounds 20' for more changes
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ ./examples/bench/fanout ./examples/bench/bare
	$(call ABOUT,Fan-out)
	@set -e; for listeners in 1000 10000; do for era in '' -legacy; do \
		echo '```'; bin/fanout -listeners $$listeners $$era $(FANOUT); echo '```'; echo; done; done

pgo: build ## profile the gateway under load for the compiler: cmd/promptweir/default.pgo, which go build uses by itself
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ ./examples/bench/speed ./examples/bench/reference
	rm -rf bin/profiles && mkdir -p bin/profiles
	bin/speed -profiles bin/profiles -only '^(get 0.3|get 10|list|page|completion)'
	go tool pprof -proto bin/profiles/*.pprof >cmd/promptweir/default.pgo

soak: ## a minute of upstreams that change, die and return, under the race detector: SOAK='-for 10m' for longer
	go build -race -o bin/ ./examples/bench/soak
	bin/soak $(SOAK)

figures: ## figures of the code, as Markdown: sizes, references, comments, the way of one get; FIGURES=DIR for another checkout
	@go run -modfile=.ci/tools.mod ./.ci/figures $(FIGURES)

check: ## all of the above that can fail, as CI runs it
	bash .ci/run
