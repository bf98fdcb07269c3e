# Berth's commands. `make help` lists them. Go, git and make are all they need:
# whatever else they run is built from pinned Go modules, once, with progress.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What the caller's shell or a workspace above says about Go does not count.
export GOFLAGS := -buildvcs=false
export GOWORK := off

# The image that `make deploy` runs.
IMG ?= berth:latest
# A kubectl of the machine talks to the machine's cluster; else the pinned one.
KUBECTL ?= $(or $(shell command -v kubectl),$$(tools/build.sh)/kubectl)

##@ General

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: controlplane build ## The main job, shown on a control plane of its own. DEMO_KEEP=1 leaves it running.
	go run ./demo

##@ Build

.PHONY: build
build: ## Build bin/manager and the commands under cmd/.
	@mkdir -p bin
	go build -o bin/manager .
	@for dir in cmd/*/; do \
		if [ -d "$$dir" ]; then (set -x; go build -o bin/ "./$$dir"); fi; \
	done

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kubectl, the controllers and KWOK; prints their folder last.
	@tools/build.sh

.PHONY: clean
clean: ## Remove what build made. The control plane's binaries stay in the cache folder.
	rm -rf bin

##@ Development

.PHONY: generate
generate: ## Regenerate deepcopy functions, CRDs and the role from markers.
	tools/generate.sh

.PHONY: manifests
manifests: generate ## The same: one script makes all that is generated.

.PHONY: fmt
fmt: ## Format all Go code.
	gofmt -l -w .

.PHONY: vet
vet: ## Vet every module.
	@tools/modules.sh go vet

.PHONY: lint
lint: vet ## Vet every module and run staticcheck over the operator's.
	go tool -modfile=tools/dev/go.mod staticcheck ./...

.PHONY: verify
verify: ## Generated files are fresh, code is formatted, modules are tidy, the import policy holds.
	@tools/verify.sh

##@ Test

.PHONY: test
test: controlplane ## Unit and integration tests of every module.
	@tools/test.sh unit integration

.PHONY: test-unit
test-unit: ## The tests that need no control plane.
	@tools/test.sh unit

.PHONY: test-integration
test-integration: controlplane ## The tests on a real kube-apiserver and etcd.
	@tools/test.sh integration

.PHONY: oracle
oracle: ## 200,000 generated decisions beside kube-scheduler's own, and what they covered; minutes.
	cd test/oracle && go test -v -timeout 60m . -decisions 200000 -least 200

.PHONY: sim
sim: ## Play SEEDS histories of the scheduler on a virtual clock, from FIRST on (200000, 1).
	go test ./test/sim -run TestEveryHistory -v -timeout 0 -args -seeds $(or $(SEEDS),200000) -first $(or $(FIRST),1)

##@ Measure, on a quiet machine

.PHONY: bench
bench: controlplane ## The tables of speed against kube-scheduler and the null binder. BENCH_ARGS are its flags: --help.
	go run ./test/perf $(BENCH_ARGS)

.PHONY: bench-smoke
bench-smoke: controlplane ## The same, tiny: whether it works, not how fast anything is.
	go run ./test/perf --nodes=50 --existing=20 --pods=200 --rounds=1 --warm=0 \
		--shapes=basic --loads=drain --sides=berth,kube-scheduler,null+watch+events $(BENCH_ARGS)

NODES ?= 5000
PODS ?= 5000
.PHONY: soak
soak: controlplane ## A crowd of pods on a real API server while the profile changes: nothing lost. NODES=5000 PODS=5000
	go run ./test/soak --nodes=$(NODES) --pods=$(PODS) $(SOAK_ARGS)

##@ Deployment, to the cluster that kubectl points at

.PHONY: install
install: ## Install the CustomResourceDefinitions.
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: uninstall
uninstall: ## Remove the CustomResourceDefinitions and every resource of their kinds.
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: deploy
deploy: ## Install the whole operator, with the image IMG.
	$(KUBECTL) kustomize config/default | sed 's|image: berth:latest$$|image: $(IMG)|' | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: ## Remove the whole operator; the pods it bound stay where they are.
	$(KUBECTL) delete --ignore-not-found -k config/default
