# `make help` lists the targets. .ci/run calls the same ones.
.DEFAULT_GOAL := help
SHELL := /bin/bash
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# go-nvml resolves NVML's symbols when they are called: the link must be lazy
# also where the tool chain's default is "now" (cgo refuses the flag in code).
LAZY := -ldflags=-extldflags=-Wl,-z,lazy

BIN := bin/warden
FUZZTIME ?= 30s
LADDER ?= bin/ladder
SOAK ?= 20m
ATTACK ?= 30m
ROUNDS ?= 10

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

.PHONY: build
build: ## build bin/warden
	go build $(LAZY) -o $(BIN) ./cmd/warden

.PHONY: test
test: ## all Go tests, race detector on, random order
	go test -race -shuffle=on -timeout 20m ./...

.PHONY: figures
figures: ## the figures of supervision (cmd/warden/figures_test.go), ROUNDS (default 10) times the usual rounds
	go test -count=1 -timeout 3h -v -run TestFigure ./cmd/warden -rounds $(ROUNDS)

.PHONY: soak
soak: ## kills, upgrades, frozen engines and impatient clients for SOAK (default 20m)
	go test -tags soak -count=1 -timeout 0 -v -run TestSoak ./cmd/warden -for $(SOAK)

.PHONY: race
race: ## the tests that start many goroutines, ten times over
	go test -race -shuffle=on -count=10 ./router/... ./supervisor/events ./supervisor/control ./cmd/internal/...

.PHONY: lint
lint: ## gofmt, vet, staticcheck, the build without cgo
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -d $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	CGO_ENABLED=0 go build -o /dev/null ./cmd/warden

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME (default 30s)
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: attack
attack: ## the table of cmd/warden/attack_test.go, limits of the machine, and ATTACK (default 30m) of fuzzing
	scripts/attack.sh full $(ATTACK)

.PHONY: leaks
leaks: ## 10^6 requests, a fifth of them with a fault, through one warden (about 15 minutes)
	go test -count=1 -timeout 2h -v -run '^TestFigureNoLeaks$$' ./cmd/warden -rounds 100

.PHONY: vulncheck
vulncheck: ## known holes in what warden is built from (vuln.go.dev, or the database that GOVULNDB names: a mirror, file:///DIR)
	scripts/vulncheck.sh

.PHONY: demo
demo: ## simulated replicas, dashboard and load: no GPU, no vLLM
	go run $(LAZY) ./cmd/warden up --demo

.PHONY: bench
bench: ## Go benchmarks of the decision and the scanners
	go test -run '^$$' -bench . -benchmem ./router/... ./cmd/internal/...

.PHONY: ladder
ladder: ## all placement policies and rivals in virtual time (SIMULATED), takes minutes, into LADDER (default bin/ladder)
	@mkdir -p $(LADDER)
	go test -count=1 -timeout 1h -run TestRouterAgreesWithPlacer ./cmd/internal/ladder -args -router $(abspath $(LADDER))/router.json
	go run ./cmd/ladder -out $(LADDER) -router $(LADDER)/router.json

.PHONY: test-clients
test-clients: build ## real clients from npm (SDKs, Claude Code, Codex; ALL=1: opencode, Qwen Code too), simulated engines
	scripts/test-clients.sh

.PHONY: test-prometheus
test-prometheus: build ## alert rules and every query of the dashboard, a real Prometheus, simulated engines
	scripts/test-prometheus.sh

.PHONY: test-otel
test-otel: ## spans in a real OpenTelemetry Collector (built once, 2 min), well and not; simulated engines
	scripts/test-otel.sh

.PHONY: test-vllm
test-vllm: build ## two real vLLM replicas on the CPU (installs about 6 GB once)
	scripts/test-vllm.sh

.PHONY: ladder-vllm
ladder-vllm: build ## all policies and other routers on real vLLM (2.5 h; ARGS="-sessions 8,12 -rounds 1 -length 40s")
	scripts/ladder-vllm.sh $(ARGS)

.PHONY: bench-path
bench-path: build ## the cost of warden in the path beside HAProxy, nginx, vllm-router, smg (15 min; ARGS="-streams 1,64 -quiet 0 -rounds 1")
	scripts/bench-path.sh $(ARGS)

.PHONY: test-vllm-faults
test-vllm-faults: build ## kill -9 of every process around real vLLM on the CPU, ROUNDS (default 10) rounds each
	scripts/test-vllm-faults.sh $(ROUNDS)

.PHONY: docs
docs: build ## the manual pages, into man/
	$(BIN) docs man

.PHONY: schemas
schemas: ## configs/*.schema.json anew from the Go types
	go test ./configs -run Schema -update
	go test ./cmd/warden -run Schema -update
