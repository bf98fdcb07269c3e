// Package architecture holds the walls of the house: which room may import which.
package architecture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder, as seen from this one, where go test runs.
const root = "../.."

// walls is the import policy, in the language of parsePolicy. The first line
// whose left side fits a package is its line; a package without one is a
// fault. It speaks of code: tests may import what they like, but for what is
// to be had nowhere.
const walls = `
# The lowest packages import none of ours.
api/...:                api/...
scheduler/fault:
scheduler/framework:    scheduler/fault

# What was decided is written in the users' words.
scheduler/decision:     api/... scheduler/fault

# Each plugin stands alone: what two share is a value of framework. The
# registry is the one place that knows them all.
scheduler/plugins/*:    scheduler/framework scheduler/fault
scheduler/plugins:      scheduler/framework scheduler/plugins/*

# What is where, and who waits.
scheduler/cache:        scheduler/framework scheduler/fault
scheduler/queue:        scheduler/framework scheduler/decision scheduler/fault
scheduler/eventhandlers:       scheduler/framework scheduler/cache scheduler/queue scheduler/fault
scheduler/extender:     scheduler/framework scheduler/fault
scheduler/volumes:      scheduler/framework scheduler/fault

# From a spec to what runs. Only compile reads the users' words.
scheduler/compile:      api/... scheduler/framework scheduler/extender scheduler/fault
# kube-scheduler's own configuration is read and written beside it.
scheduler/upstreamconfig: api/... scheduler/framework scheduler/compile scheduler/extender scheduler/fault
scheduler/scopedinformers:        scheduler/framework scheduler/fault
scheduler/trial:        scheduler/framework scheduler/cache scheduler/cycle scheduler/fault
scheduler/profile:      scheduler/framework scheduler/compile scheduler/queue scheduler/scopedinformers scheduler/cache scheduler/cycle scheduler/extender scheduler/trial scheduler/fault

# One attempt, and what follows from it.
scheduler/cycle:        scheduler/framework scheduler/cache scheduler/decision scheduler/extender scheduler/fault
scheduler/explain:      api/... scheduler/framework scheduler/decision scheduler/compile scheduler/queue scheduler/cycle scheduler/binding scheduler/fault
scheduler/preemption:   scheduler/framework scheduler/fault
scheduler/sandbox:      scheduler/framework scheduler/cache scheduler/cycle scheduler/preemption scheduler/compile scheduler/plugins scheduler/volumes scheduler/fault
scheduler/sandbox/log:
scheduler/recorder:     scheduler/framework scheduler/fault
scheduler/unserved:     scheduler/fault
scheduler/leadership:       scheduler/fault
scheduler/journal:      scheduler/leadership scheduler/fault
scheduler/binding:      scheduler/journal scheduler/leadership scheduler/framework scheduler/cache scheduler/fault

# Who looks in from outside.
scheduler/debug:      scheduler/framework scheduler/cache scheduler/queue scheduler/cycle scheduler/profile scheduler/fault

# The loop and the reconcilers do not know each other: they meet in profile
# and decision.
scheduler:              scheduler/*
controllers/history:    api/... scheduler/compile scheduler/fault
controllers/crashreport: scheduler/framework scheduler/fault
controllers/export:     api/... scheduler/framework scheduler/compile scheduler/upstreamconfig scheduler/fault
controllers/explainer:  api/... scheduler/decision scheduler/explain scheduler/fault
controllers:            api/... controllers/explainer controllers/export controllers/history scheduler/framework scheduler/compile scheduler/profile scheduler/decision scheduler/explain scheduler/fault

# What is installed can be read without a cluster, and for which clusters it is.
config:
config/crd:

# The kubectl plugin knows the users' words, the compiler that judges them, and
# the annotation's reader; nothing of what runs. Its verbs do not know each other.
cmd/kubectl-berth/cluster:   api/... scheduler/compile
cmd/kubectl-berth/show:      scheduler/decision
cmd/kubectl-berth/verb:      cmd/kubectl-berth/cluster
cmd/kubectl-berth/complete:  cmd/kubectl-berth/cluster cmd/kubectl-berth/verb
cmd/kubectl-berth/manifest:  api/... scheduler/compile scheduler/upstreamconfig config/crd
# What-if asks the scheduler itself, offline, about a copy of the live state.
cmd/kubectl-berth/state:     api/... scheduler/compile scheduler/plugins scheduler/sandbox cmd/kubectl-berth/cluster cmd/kubectl-berth/verb
cmd/kubectl-berth/try:       api/... scheduler/framework scheduler/compile scheduler/decision scheduler/plugins scheduler/cycle scheduler/sandbox cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest
cmd/kubectl-berth/record:    api/... scheduler/compile scheduler/decision scheduler/eventhandlers scheduler/sandbox scheduler/sandbox/log cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb
cmd/kubectl-berth/explain:   api/... scheduler/framework scheduler/cycle scheduler/decision scheduler/plugins scheduler/sandbox cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb
# Whether Berth bound a pod, lint reads in its annotation.
cmd/kubectl-berth/lint:      api/... scheduler/compile scheduler/decision scheduler/plugins scheduler/upstreamconfig cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest
# Who waits for nobody, check finds by the manager's own rule.
cmd/kubectl-berth/check:     api/... config scheduler/compile scheduler/unserved cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest
cmd/kubectl-berth/*:         api/... config scheduler/framework scheduler/compile scheduler/upstreamconfig scheduler/plugins cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest

# The doors of the house.
.:                      operator
operator:               api/... config controllers/... scheduler scheduler/*
cmd/kubectl-berth:      cmd/kubectl-berth/*
demo:                   test/support/controlplane

# What is written from the code reads it as text.
tools/flags:            operator
tools/chart:            config
tools/metrics:
tools/plugins:          api/... scheduler/compile scheduler/framework scheduler/sandbox scheduler/plugins scheduler/profile scheduler/queue

# Proof may look everywhere.
test/...:               ...

# Compute a value, then act on it: these rooms do no I/O.
scheduler/compile scheduler/upstreamconfig scheduler/cache scheduler/queue scheduler/cycle scheduler/preemption scheduler/trial never os/... net/... k8s.io/client-go/kubernetes/... k8s.io/client-go/rest/... k8s.io/client-go/dynamic/... k8s.io/client-go/tools/clientcmd/... sigs.k8s.io/controller-runtime/...

# The scheduler can be read, and imported, without the operator's library.
scheduler/framework scheduler/plugins/... never sigs.k8s.io/controller-runtime/...

# What is shipped plays no API server.
. operator api/... scheduler/... controllers/... cmd/... never k8s.io/client-go/kubernetes/fake/... sigs.k8s.io/controller-runtime/pkg/client/fake/...

# kube-scheduler itself is the oracle, and stays in modules of its own.
... nowhere k8s.io/kubernetes/...
`

func TestEveryRoomKeepsItsWall(t *testing.T) {
	policy, err := parsePolicy(walls)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := readModule(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatalf("no packages in %s", root)
	}
	for _, fault := range policy.check(packages) {
		t.Error(fault)
	}
}

func TestTheModuleDoesNotRequireKubernetesItself(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); slices.Contains(f, "k8s.io/kubernetes") || slices.Contains(f, "replace") {
			t.Errorf("go.mod says %q: it may neither require k8s.io/kubernetes nor replace a module", strings.TrimSpace(line))
		}
	}
}
