// Package faults runs the shipped manager on a real control plane whose parts fail: etcd, the
// API server of the managers, the connections between them, webhooks, credentials, and the
// manager's own process. Under each fault pods are created and deleted all the time, and the
// profile changes. After it every pod that fits is bound, what statuses say is true, and package
// checker finds no violation of an invariant in the history and the audit logs.
// Some specs plant a violation themselves, and expect that the checker reports it.
//
// Two API servers share one etcd. The managers use one of them, which is the one that fails; the
// suite uses the other one.
//
// A short list of specs runs by default, and all of them with -all: `make faults`.
package faults

import (
	"flag"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// all runs every spec. Each takes up to two minutes.
var all = flag.Bool("all", false, "run every spec, not only those of `make test`")

// env is the control plane of all specs.
var env *testEnv

func TestFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "faults")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	env = startEnv(ctx)
}, NodeTimeout(15*time.Minute))

// limit is the timeout of a spec.
const limit = SpecTimeout(5 * time.Minute)

// long leaves a spec out of the short list.
func long() {
	GinkgoHelper()
	if !*all {
		Skip("it runs with -all")
	}
}
