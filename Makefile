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
		/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: controlplane build ## The main job, shown on a control plane of its own. DEMO_KEEP=1 leaves it running.
	go run ./demo

##@ Build

.PHONY: build
build: ## Build bin/manager and the commands under cmd/.
	@mkdir -p bin
	go build -tags grpcnotrace -o bin/manager . # as .goreleaser.yaml does
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

.PHONY: bundle
bundle: generate ## The same, with bundle/ for the Operator Lifecycle Manager. IMG=… is the manager's image in it.

.PHONY: fmt
fmt: ## Format all Go code.
	gofmt -l -w .

.PHONY: vet
vet: ## Vet every module.
	@tools/modules.sh go vet

.PHONY: lint
lint: vet ## Vet every module; staticcheck and govulncheck over the operator's. VULN=off leaves the latter out, which needs the database of vulnerabilities.
	go tool -modfile=tools/dev/go.mod staticcheck ./...
	@tools/vulnerabilities.sh

.PHONY: verify
verify: ## Generated files and the built page are fresh, code is formatted, modules are tidy, the import policy holds.
	@tools/verify.sh

##@ Test

.PHONY: test
test: controlplane ## Unit and integration tests of every module; those of the page that take seconds, if Node and a Chromium are there.
	@tools/test.sh page unit integration

.PHONY: test-long
test-long: controlplane ## The suites that take minutes each: every alert fired, leaders replaced, many pending pods explained, the commands that measure.
	@tools/test.sh long

.PHONY: test-race
test-race: controlplane ## The tests on a control plane with the race detector; `make test` has it for unit tests only.
	@RACE=all tools/test.sh integration

.PHONY: test-unit
test-unit: ## The tests that need no control plane.
	@tools/test.sh unit

.PHONY: test-integration
test-integration: controlplane ## The tests on a real kube-apiserver and etcd.
	@tools/test.sh integration

.PHONY: oracle
oracle: ## 1,000,000 generated decisions beside kube-scheduler's own, 200,000 more in clusters so full that pods preempt, 200,000 pods with devices, 50,000 groups of pods, 1,000 configurations converted there and back, and what they covered; half an hour.
	cd test/exactness/oracle && go test -v -timeout 180m . -decisions 1000000 -least 1000 -preemptions 200000 -histories 1000 -device-clusters 8000 -device-decisions 200000 -groups 50000

.PHONY: sim
sim: ## Play SEEDS histories of the scheduler on a virtual clock, GANGSEEDS of 20 gangs and MANYGANGSEEDS of 1,000, and of replicas, gangs under replicas, controllers, volumes, devices and explanations, from FIRST on (200000, 100000, 100, 20000, 20000, 20000, 50000 each, 1).
	go test ./test/simulation -run TestEveryHistory -v -timeout 0 -args -seeds $(or $(SEEDS),200000) -gangseeds $(or $(GANGSEEDS),100000) -manygangseeds $(or $(MANYGANGSEEDS),100) -manygangs $(or $(MANYGANGS),1000) -replicaseeds $(or $(REPLICASEEDS),20000) \
		-controllerseeds $(or $(CONTROLLERSEEDS),20000) -gangreplicaseeds $(or $(GANGREPLICASEEDS),20000) \
		-volumeseeds $(or $(VOLUMESEEDS),50000) -deviceseeds $(or $(DEVICESEEDS),50000) -explanationseeds $(or $(EXPLANATIONSEEDS),50000) -first $(or $(FIRST),1)

.PHONY: sim-guided
sim-guided: ## Play guided histories for GUIDED (1h), from and into the folder CORPUS; says what none has ever met.
	go test ./test/simulation -run TestGuidedHistories -v -timeout 0 -args -guided $(or $(GUIDED),1h) -corpus $(abspath $(or $(CORPUS),bin/corpus)) -first $(or $(FIRST),1)

.PHONY: mutants
mutants: ## Break the code in one place after the other and see that the tests find it. MUTANTS="Name,Name" names some mutations.
	go run ./test/simulation/mutations $(if $(MUTANTS),--only $(MUTANTS))

.PHONY: fuzz
fuzz: ## Run every fuzz target for TIME (2m); what fails stays as a test. RESUME=1 goes on after those that passed.
	@mkdir -p bin
	go run ./test/fuzzing --time=$(or $(TIME),2m) --json=bin/fuzzing.json $(if $(RESUME),--resume)

.PHONY: crashes
crashes: controlplane ## Kill the manager before and after each of its writes, and at each step between them. CRASHES_ARGS="-part 2/5 -report FILE".
	go test -vet=off -count=1 -timeout 8h ./test/crashes -run TestCrashes -args -cells all $(CRASHES_ARGS)

.PHONY: faults
faults: controlplane ## The shipped manager while etcd, API servers, connections, webhooks, tokens or its own process fail; an hour. FOCUS=… runs some.
	go test ./test/faults -count=1 -timeout 120m -v -ginkgo.v $(if $(FOCUS),-ginkgo.focus "$(FOCUS)") -args -all

.PHONY: tracing
tracing: controlplane ## Traces of a manager that runs, in the OpenTelemetry Collector; compiling that takes minutes, once.
	go vet -tags tracing ./test/observability/tracing
	cd test/observability/tracing/collector && go vet -tags tracing . && go build -tags tracing -ldflags=-w -o ../../../../bin/collector .
	go test -tags tracing -count=1 -timeout 20m ./test/observability/tracing -v -ginkgo.v

# Outside the repository, all of whose Go files are read by what generates and formats.
PORTED := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/berth/scheduler-plugins

.PHONY: scheduler-plugins
scheduler-plugins: controlplane ## SIG Scheduling's plugins, kubernetes-sigs/scheduler-plugins, in Berth, each with the configuration that it publishes; compiling them takes minutes, once.
	cd test/integration/schedulerplugins && go vet -tags schedulerplugins ./port && go run -tags schedulerplugins ./port $(PORTED)
	cd test/integration/schedulerplugins && go test -tags schedulerplugins -modfile=$(PORTED).mod -count=1 -timeout 20m -v .

.PHONY: real-node
real-node: ## Berth's image on a real kubelet and containerd, as root on Debian. FOCUS=… runs some specs, KEEP=1 leaves the cluster running, RELEASE=bin/release installs what release-snapshot made.
	@tools/real-node.sh

##@ Measure, on a quiet machine

.PHONY: bench
bench: controlplane ## The tables of speed against kube-scheduler and the null binder, the arithmetic of a new shape of pods, and the gap between binds at a restart. BENCH_ARGS are its flags: --help.
	go run ./test/perf $(BENCH_ARGS)
	go test -run '^$$' -bench OnePod -benchtime 5x ./scheduler/devices/allocation
	go test -run '^$$' -bench NewShape -benchtime 5000x ./scheduler/plugins/noderesources
	go test -run '^$$' -bench PopBesideSwaps -benchtime 3x ./scheduler/queue
	go run ./test/handover/restarts $(RESTARTS_ARGS)

.PHONY: bench-restarts
bench-restarts: controlplane ## For how long no pod is bound when the leader is replaced, 20 times under a stream of pods; nothing is lost. Part of bench.
	go run ./test/handover/restarts $(RESTARTS_ARGS)

.PHONY: bench-smoke
bench-smoke: controlplane ## The same, tiny: whether it works, not how fast anything is.
	go run ./test/perf --nodes=50 --existing=20 --pods=200 --rounds=1 --warm=0 \
		--shapes=basic --loads=drain --sides=berth,kube-scheduler,null+watch+events $(BENCH_ARGS)

# What docs/performance.md shows, what matters most first: whole processes that find all
# pods there; the algorithm alone, with fewer pods where kube-scheduler takes long for
# each; a slow profile beside others; pods that come while the processes run; and what
# explaining costs; nodes that change, starts on existing clusters, and a backlog at a
# first start with leader election. Several hours on a machine that does nothing
# else: kube-scheduler works in parallel and Berth does not, so that other work beside
# them flatters Berth.
# What was measured is in docs/performance/runs, from which make page draws: a run that is ended
# early leaves the files of its first parts.
ROUNDS ?= 3
PAGE := docs/performance/runs/part-
ALGORITHM := go run ./test/perf --layers=algorithm --warm=0
PROCESS := go run ./test/perf --layers=process --pods=5000
ALTERNATING := go run ./test/perf --layers=process --loads=alternating+drain
BESIDE_NULL := $(ALTERNATING) --rounds=2 --pods=6000 --sides=berth,null+watch,null+watch+events
EXPLAINING := go run ./test/perf --layers=process --rounds=10 --nodes=500 --existing=0
part-1 = $(PROCESS) --rounds=$(ROUNDS) --shapes=basic --loads=drain --sides=berth,kube-scheduler,null+watch,null+watch+kinds,null+watch+events
part-2 = $(ALGORITHM) --rounds=$(ROUNDS) --pods=5000 --node-steps=500,1000,2000,5000,10000,20000 \
	--shapes=basic,deployments,node-affinity,thousand,full,large,all-nodes,first,few-replicas
part-3 = $(ALGORITHM) --rounds=$(ROUNDS) --pods=2000 --shapes=spread,affinity,anti-affinity,preferred-affinity,default-spread,mixed
part-4 = $(ALGORITHM) --rounds=2 --shapes=preempt,million
part-5 = $(PROCESS) --rounds=2 --shapes=basic --loads=drain --sides=slow-profile,slow-profile+pods
part-6 = $(PROCESS) --rounds=$(ROUNDS) --shapes=basic --loads=burst,open --shares=0.5,0.75,0.95 --seconds=20 --sides=berth,kube-scheduler,null+watch,null+watch+events
part-7 = $(BESIDE_NULL) --shapes=basic,deployments
part-8 = $(PROCESS) --rounds=$(ROUNDS) --shapes=basic --loads=burst,burst+unfit --sides=berth
part-9 = $(EXPLAINING) --loads=alternating --shapes=basic,deployments --pods=6000 --sides=berth-recorded,berth-unexplained
part-10 = $(PROCESS) --rounds=$(ROUNDS) --shapes=basic --loads=burst,burst+node-changes --nodes=20000 --sides=berth,null+watch
part-11 = go run ./test/perf --layers=process --rounds=1 --shapes=basic --loads=start --sizes=5000:25000,45000:25000,5000:75000,15000:75000 --sides=berth,kube-scheduler,null+watch+kinds
part-12 = $(ALTERNATING) --rounds=1 --pods=15000 --shapes=basic --sides=berth-elected,null+watch,null+watch+events
part-13 = go run ./test/perf --layers=process --rounds=1 --shapes=basic --loads=drain --pods=50000 --sides=berth-elected,null+watch,null+watch+events
part-14 = $(BESIDE_NULL) --shapes=anti-affinity,spread
part-15 = $(BESIDE_NULL) --shapes=node-affinity,affinity,default-spread
part-16 = $(BESIDE_NULL) --shapes=thousand,mixed
PARTS := 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
define newline


endef
# A part that was measured of this commit, or of one since which nothing that is measured has
# changed, is not measured again. What a part that failed has measured is kept under another name.
# A commit with + had changes: those of the parts before, since what is measured must be committed.
# Of test/support it has what is compiled into it, which is looked up once, when it is asked for.
MEASURED = go.mod main.go api controllers operator scheduler config ':!config/admission' test/perf $(SUPPORT) test/replay test/exactness/oracle
SUPPORT = $(eval SUPPORT := $(shell go list -deps . ./test/perf/... ./test/replay | sed -n 's,^github.com/berthdev/berth/\(test/support/\),\1,p'))$(SUPPORT)
measure = @if measured=$$(sed -n 's/.*"machine": "commit \([0-9a-f]*\)+\{0,1\};.*/\1/p' $(PAGE)$(1).json 2>/dev/null) && [ -n "$$measured" ] && git diff --quiet $$measured -- $(MEASURED); \
	then echo "part $(1) was measured of commit $$measured"; \
	elif [ -n "$$(git status --porcelain -- $(MEASURED))" ]; \
	then echo "part $(1) is not measured: commit what differs from HEAD, or run $(part-$(1))"; git status --short -- $(MEASURED); exit 1; \
	else mkdir -p $(dir $(PAGE)) && (set -x; $(part-$(1)) --json=$(PAGE)$(1).json --text=$(PAGE)$(1).txt) || { mv -f $(PAGE)$(1).json $(PAGE)$(1).failed.json; exit 1; }; fi
.PHONY: bench-page bench-parts
bench-page: bench-parts ## Measure what docs/performance.md shows, and put it there. ROUNDS=5. Goes on where it was ended
	$(MAKE) page
bench-parts: controlplane ## Measure PARTS="1 11" of it, and draw nothing
	$(foreach part,$(PARTS),$(call measure,$(part))$(newline))

.PHONY: page
page: ## Draw docs/performance.md from the runs in docs/performance/runs.
	cd tools/plot && go run . --page=../../docs/performance.md --svg=../../docs/performance $(foreach part,$(PARTS),$(addprefix ../../,$(wildcard $(PAGE)$(part).json)))

NODES ?= 5000
PODS ?= 5000
.PHONY: soak
soak: controlplane ## A crowd of pods on a real API server while the profile changes: nothing lost. NODES=5000 PODS=5000. HANDOVERS=100 or KILLS=100: leaders lose their place instead. BACKLOG=12000 FRESH=0: one does, over pods that fit nowhere
	go run ./test/handover/soak $(if $(BACKLOG),--backlog=$(BACKLOG) --fresh=$(or $(FRESH),0),) $(if $(HANDOVERS)$(KILLS),--handovers=$(or $(HANDOVERS),0) --kills=$(or $(KILLS),0),--nodes=$(NODES) --pods=$(PODS)) $(SOAK_ARGS)

.PHONY: night night-report
night: controlplane ## Look for faults for MINUTES=120, TIMES=1, from where the last part ended: docs/reliability.md. NIGHT=DIR has the parts, LAYERS=a,b names some layers.
	go build -o bin/night/programs/night ./test/night # go run would not pass SIGTERM on
	bin/night/programs/night --minutes=$(or $(MINUTES),120) --parts=$(or $(TIMES),1) $(if $(NIGHT),--dir=$(NIGHT)) $(if $(LAYERS),--layers="$(LAYERS)")

night-report: ## Merge the parts of make night into docs/reliability.md.
	go run ./test/night --report $(if $(NIGHT),--dir=$(NIGHT))

.PHONY: explained
explained: PODS := 10000
explained: controlplane ## So many pods wait at once: each is explained in the end, by at most twenty writes a second. PODS=10000, ten minutes
	go test ./test/perf/explanations -v -timeout 0 -args -pods $(PODS)

.PHONY: bench-swaps
bench-swaps: controlplane ## A stream of pods at half the rate that Berth reaches, with and without 200 changes of its profile beside it.
	go run ./test/handover/soak --nodes=1000 --kwok=false --pods=5000 --swaps=200 --stream=40s --rounds=3 $(SOAK_ARGS)

OLDER ?= 1.35 1.36
.PHONY: older
older: controlplane ## What of the tests needs an API server, against older ones too: OLDER="1.35 1.36"
	@tools/older.sh $(OLDER)

##@ Release

.PHONY: release-check
release-check: ## The recipe of a release and the workflow files are sound.
	@tools/release.sh check

.PHONY: release-snapshot
release-snapshot: ## Everything that a release is made of but the signatures, into bin/release; the image as an archive for each platform.
	@tools/release.sh snapshot

.PHONY: olm-e2e
olm-e2e: controlplane ## Install and upgrade the bundle through the Operator Lifecycle Manager, whose programs are built once.
	olm=$$(tools/build-olm.sh) && go test ./test/install/olm -v -count=1 -timeout 60m -args -olm "$$olm"

.PHONY: helm-e2e
helm-e2e: controlplane ## Install, upgrade and roll back charts/berth by the real Helm, which is built once; hold what it renders to kustomize.
	helm=$$(tools/build-helm.sh) && go test ./test/install/helm -v -count=1 -timeout 30m -args -helm "$$helm"

##@ The site

# What npm installed, for the lock file that is there.
site/node_modules/.package-lock.json: site/package.json site/package-lock.json
	cd site && npm ci

.PHONY: site
site: site/node_modules/.package-lock.json ## The pages of docs/ as a site, in bin/site. A link that leads nowhere fails it. Needs Node 20 and npm.
	cd site && npm run build

.PHONY: site-serve
site-serve: site ## The same, served on 127.0.0.1.
	cd site && npm run serve

# The pages of the releases in site/versions.json, each built from its tag.
.PHONY: site-versions
site-versions: site ## The site with the pages of each release in site/versions.json, built from its tag.
	@tools/site-versions.sh

.PHONY: tour-recording
tour-recording: controlplane ## docs/tour/tour.cast: the commands of the tour and what they print, on a control plane.
	go test ./test/integration -count=1 -ginkgo.focus=docs/tour/README.md -args -record-tour $(CURDIR)/docs/tour/tour.cast

.PHONY: ui ui-test screenshots docs-screenshots first-visit
ui: ## The page of `kubectl berth ui`, built anew into cmd/kubectl-berth/ui/web/dist, checked and tested. Needs Node 20 and npm.
	cd cmd/kubectl-berth/ui/web && npm ci && npm run check && npm test && npm run build

ui-test: ## All tests of that page, in a Chromium, which must be there, on made-up data.
	@tools/test-page.sh all

SCREENSHOTS ?= bin/screenshots
screenshots: ## Screenshots of each view of that page at 1440 and 390 px, in SCREENSHOTS=bin/screenshots.
	cd test/ui && npm ci && npm run screenshots -- $(abspath $(SCREENSHOTS))

first-visit: ## How long a first visit of that page takes: from make demo to why a pod waits.
	@tools/first-visit.sh

docs-screenshots: screenshots ## Those of them that docs/ui.md shows, as docs/ui/NAME.webp.
	cd test/ui && node docs.mjs $(abspath $(SCREENSHOTS)) $(CURDIR)/docs/ui

##@ Deployment, to the cluster that kubectl points at

.PHONY: install
install: ## Install the CustomResourceDefinitions.
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: uninstall
uninstall: ## Remove the CustomResourceDefinitions and every resource of their kinds.
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: deploy
deploy: ## Install the whole operator, with the image IMG. CONFIG=config/production adds components.
	$(KUBECTL) kustomize $(or $(CONFIG),config/default) | sed 's|image: berth:latest$$|image: $(IMG)|' | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: ## Remove the whole operator, with the CONFIG that it was deployed with; the pods it bound stay where they are.
	$(KUBECTL) delete --ignore-not-found -k $(or $(CONFIG),config/default)
