// Package architecture checks rules about the source: imports, goroutines, words, and what a
// release is made of.
package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the module's folder, relative to this one.
const root = "../.."

// importPolicy is a text for parsePolicy. The first rule whose left side matches a package
// applies to it; a package without a rule is a violation. Tests may import all but what is
// forbidden everywhere.
const importPolicy = `
# The lowest packages import none of ours.
api/...:                api/...
scheduler/podgroups:    api/...
scheduler/framework:    scheduler/podgroups
# Plugins import podclass, podclass imports counts, counts imports framework;
# never back.
scheduler/framework/counts:   scheduler/framework
scheduler/framework/podclass: scheduler/framework scheduler/framework/counts

# Decisions use the types of the API.
scheduler/decision:     api/...

# Plugins do not import each other: what two share is in framework. Only the
# registry imports all of them.
scheduler/plugins/*:    scheduler/framework scheduler/framework/counts scheduler/framework/podclass scheduler/podgroups
scheduler/plugins:      scheduler/framework scheduler/plugins/*

# Cluster state and pending pods.
scheduler/cache:        scheduler/framework scheduler/framework/counts scheduler/framework/podclass scheduler/podgroups
scheduler/queue:        scheduler/framework scheduler/decision scheduler/podgroups
scheduler/eventhandlers:       scheduler/framework scheduler/cache scheduler/queue scheduler/podgroups
scheduler/extender:     scheduler/framework
scheduler/volumes:      scheduler/framework
scheduler/devices/allocation: scheduler/framework
scheduler/devices:      scheduler/framework scheduler/devices/allocation

# From a spec to a Generation. Only compile reads the API types.
scheduler/compile:      api/... scheduler/framework scheduler/decision scheduler/extender
# kube-scheduler's own configuration.
scheduler/upstreamconfig: api/... scheduler/framework scheduler/compile scheduler/extender
scheduler/scopedinformers:        scheduler/framework
scheduler/profile:      scheduler/framework scheduler/compile scheduler/queue scheduler/scopedinformers scheduler/cache scheduler/cycle scheduler/extender scheduler/sandbox

# One attempt, and its results.
scheduler/cycle:        api/... scheduler/framework scheduler/framework/counts scheduler/framework/podclass scheduler/cache scheduler/decision scheduler/extender scheduler/podgroups
scheduler/explain:      api/... scheduler/framework scheduler/decision scheduler/compile scheduler/queue scheduler/cycle scheduler/binding
scheduler/preemption:   scheduler/framework scheduler/podgroups
scheduler/sandbox:      scheduler/framework scheduler/cache scheduler/queue scheduler/cycle scheduler/preemption scheduler/compile scheduler/devices scheduler/volumes scheduler/podgroups
scheduler/fieldpath:
scheduler/sandbox/log:  scheduler/fieldpath
scheduler/recorder:     scheduler/framework
scheduler/unserved:     api/... scheduler/decision
scheduler/leadership:
scheduler/journal:      scheduler/leadership
scheduler/binding:      scheduler/journal scheduler/leadership scheduler/framework scheduler/cache

# Debugging.
scheduler/debug:      scheduler/framework scheduler/cache scheduler/queue scheduler/cycle scheduler/profile

# The loop and the reconcilers do not import each other: they share profile
# and decision.
scheduler:              api/... scheduler/*
controllers/history:    api/... scheduler/compile
controllers/crashreport: scheduler/framework
controllers/export:     api/... scheduler/framework scheduler/compile scheduler/upstreamconfig
controllers/explainer:  api/... scheduler/decision scheduler/explain
controllers:            api/... controllers/explainer controllers/export controllers/history scheduler/framework scheduler/compile scheduler/profile scheduler/decision scheduler/explain

# Manifests and CRDs, and the versions of Kubernetes that they are for.
config:
config/crd:

# The kubectl plugin imports the API types, the compiler that validates them, and
# the reader of the annotation; nothing that runs. Its verbs do not import each other, except
# for ui.
cmd/kubectl-berth/cluster:   api/... scheduler/compile
cmd/kubectl-berth/show:      api/... scheduler/decision
cmd/kubectl-berth/verb:      cmd/kubectl-berth/cluster
cmd/kubectl-berth/complete:  cmd/kubectl-berth/cluster cmd/kubectl-berth/verb
cmd/kubectl-berth/manifest:  api/... scheduler/fieldpath scheduler/compile scheduler/upstreamconfig config/crd
# What-if runs the scheduler in a sandbox with a copy of the live state.
cmd/kubectl-berth/state:     api/... scheduler/compile scheduler/plugins scheduler/podgroups scheduler/sandbox cmd/kubectl-berth/cluster cmd/kubectl-berth/verb
cmd/kubectl-berth/try:       api/... scheduler/framework scheduler/compile scheduler/decision scheduler/plugins scheduler/cycle scheduler/sandbox scheduler/podgroups cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest
cmd/kubectl-berth/record:    api/... scheduler/compile scheduler/decision scheduler/cache scheduler/eventhandlers scheduler/sandbox/log cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb
cmd/kubectl-berth/explain:   api/... scheduler/framework scheduler/compile scheduler/cycle scheduler/decision scheduler/plugins scheduler/podgroups scheduler/sandbox cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb
# The page shows what other verbs evaluate, and the devices of a pod in its annotation.
cmd/kubectl-berth/ui:        api/... scheduler/decision cmd/kubectl-berth/explain cmd/kubectl-berth/try cmd/kubectl-berth/diff cmd/kubectl-berth/version cmd/kubectl-berth/state cmd/kubectl-berth/cluster cmd/kubectl-berth/verb
# lint reads in a pod's annotation whether Berth bound it.
cmd/kubectl-berth/lint:      api/... scheduler/compile scheduler/decision scheduler/plugins scheduler/podgroups scheduler/upstreamconfig cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest
# check finds pods without a scheduler as the manager does.
cmd/kubectl-berth/check:     api/... config scheduler/compile scheduler/unserved cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest
cmd/kubectl-berth/*:         api/... config scheduler/framework scheduler/compile scheduler/upstreamconfig scheduler/plugins cmd/kubectl-berth/cluster cmd/kubectl-berth/complete cmd/kubectl-berth/show cmd/kubectl-berth/verb cmd/kubectl-berth/manifest

# The commands.
.:                      operator
operator:               api/... config controllers/... scheduler scheduler/*
cmd/kubectl-berth:      cmd/kubectl-berth/*
demo:                   test/support/controlplane

# Generators.
tools/flags:            operator
tools/chart:            config
tools/metrics:
tools/plugins:          api/... scheduler/compile scheduler/framework scheduler/sandbox scheduler/plugins scheduler/profile scheduler/queue

# Tests may import everything.
test/...:               ...

# Compute a value, then act on it: these packages do no I/O.
scheduler/compile scheduler/upstreamconfig scheduler/cache scheduler/queue scheduler/cycle scheduler/preemption never os/... net/... k8s.io/client-go/kubernetes/... k8s.io/client-go/rest/... k8s.io/client-go/dynamic/... k8s.io/client-go/tools/clientcmd/... sigs.k8s.io/controller-runtime/...

# The sandbox has a client that refuses requests, and nothing else that could do any.
scheduler/sandbox/... never os/... k8s.io/client-go/dynamic/... k8s.io/client-go/tools/clientcmd/... sigs.k8s.io/controller-runtime/...

# The scheduler can be read, and imported, without the operator's library.
scheduler/framework/... scheduler/plugins/... never sigs.k8s.io/controller-runtime/...

# What ships has no fake API server.
. operator api/... scheduler/... controllers/... cmd/... never k8s.io/client-go/kubernetes/fake/... sigs.k8s.io/controller-runtime/pkg/client/fake/...

# A template calls methods by name: the linker then keeps every method of every type, which
# makes the plugin half as large again.
cmd/... never text/template/... html/template/...

# kube-scheduler is imported by modules of their own only.
... nowhere k8s.io/kubernetes/...
`

func TestImportsFollowThePolicy(t *testing.T) {
	policy, err := parsePolicy(importPolicy)
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
	for _, violation := range policy.check(packages) {
		t.Error(violation)
	}
}

func TestTheModuleDoesNotRequireKubernetesItself(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); slices.Contains(f, "k8s.io/kubernetes") || slices.Contains(f, "replace") {
			t.Errorf("go.mod says %q: it must not require k8s.io/kubernetes or replace a module", strings.TrimSpace(line))
		}
	}
}

// packageInDoc is a line of scheduler/doc.go about a package.
var packageInDoc = regexp.MustCompile(`(?m)^//\t([a-z]+) +\S`)

func TestTheDocumentationOfTheSchedulerNamesItsPackages(t *testing.T) {
	folder := filepath.Join(root, "scheduler")
	text, err := os.ReadFile(filepath.Join(folder, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	var named, found []string
	for _, match := range packageInDoc.FindAllStringSubmatch(string(text), -1) {
		named = append(named, match[1])
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "testdata" {
			found = append(found, entry.Name())
		}
	}
	slices.Sort(named)
	if diff := cmp.Diff(found, named); diff != "" {
		t.Errorf("the packages below scheduler and those in its doc.go (-there +named):\n%s", diff)
	}
}
