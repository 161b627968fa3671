# make run     builds the program and runs it over the echo example in ./demo
# make test    all tests that need nothing but Go, git and make
# make check   what a change must pass: lint, test, race
GO      ?= go
FUZZTIME ?= 1m
# How long the tests of a package may take: far longer than any takes where nothing else runs.
PATIENCE ?= 20m
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

.PHONY: build run test race lint fuzz bench real flying-squid crd sim mutants chaos crash check

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X reconciler.dev/reconciler/cmd/reconciler/internal/cli.version=$(VERSION)' -o bin/reconciler ./cmd/reconciler

# Everything lies below ./demo, apart from what the host has installed. Ctrl-C leaves the servers running.
run: build
	@mkdir -p demo/manifests
	@[ -n "$$(ls demo/manifests)" ] || bin/reconciler example echo > demo/manifests/echo.yaml
	@bin/reconciler run --manifests demo/manifests --state-dir demo/state

test:
	$(GO) test -timeout $(PATIENCE) ./...

# One package at a time: under the race detector two fill both processors, and real processes need them too.
race:
	$(GO) test -timeout $(PATIENCE) -race -p 1 ./...

lint:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags real,bench,mutants,chaos,crash ./...

# Each fuzzer for FUZZTIME (1m, or 5000x for a number of inputs), two at a time. What a fuzzer finds stays in testdata/fuzz as a seed.
fuzz:
	@grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include=*_test.go . | sed -E 's|/[^/]*:func | |' | sort -u | \
	  xargs -P 2 -L 1 sh -c 'echo "$$1: $$2"; exec $(GO) test -run "^$$" -parallel 1 -fuzz "^$$2\$$" -fuzztime $(FUZZTIME) "$$1"' fuzz

# Time and memory: a benchmark beside each hot path, then the whole program at 1,000 scopes against a bare fork and exec.
bench:
	$(GO) test -run '^$$' -bench . -benchtime 1s ./...
	$(GO) test -tags bench -count 1 -v -timeout 30m -run '^TestBench' ./cmd/reconciler

# Real servers from Debian's packages, started, crashed, restarted and stopped. Most of them wait most of the time.
real:
	$(GO) test -tags real -count 1 -v -parallel 8 -timeout $(PATIENCE) -run '^TestReal' ./cmd/reconciler

# Minecraft in JavaScript for `make real`, exactly as its lock says, where XDG_CACHE_HOME keeps it: needs npm, once.
FLYING_SQUID = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/reconciler-tests/flying-squid
flying-squid:
	@cmp -s cmd/reconciler/testdata/flying-squid/package-lock.json "$(FLYING_SQUID)/installed.json" || { \
	  mkdir -p "$(FLYING_SQUID)" && cp cmd/reconciler/testdata/flying-squid/package*.json "$(FLYING_SQUID)" && \
	  (cd "$(FLYING_SQUID)" && npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund) && \
	  cp "$(FLYING_SQUID)/package-lock.json" "$(FLYING_SQUID)/installed.json"; }

# A million steps of the simulation, and faults put into the shipped code that it must see.
sim:
	$(GO) test -count 1 -timeout $(PATIENCE) -run '^TestSimulation' ./cmd/reconciler/internal/sim -sim.steps 1000000

mutants:
	$(GO) test -tags mutants -count 1 -parallel 2 -timeout 1h -v -run '^TestMutants' ./cmd/reconciler/internal/sim

# A hundred servers through edits, holds, kills and stops of everything, for CHAOS_SECONDS (300) with CHAOS_SEED (a new one).
chaos:
	$(GO) test -tags chaos -count 1 -v -timeout 24h -run '^TestChaos' ./cmd/reconciler

# Keeper and reconciler, killed before and after each system call that changes anything, with CRASH_SEED (a new one); one in CRASH_SAMPLE (1) of the kills.
crash:
	$(GO) test -tags crash -count 1 -v -parallel 8 -timeout 30m -run '^TestCrash' ./cmd/reconciler

# The corpus of manifests through the API server's own validation of our CRDs. A module of its own: it is large.
crd:
	cd spec/crdtest && $(GO) test ./...

check: lint test race
