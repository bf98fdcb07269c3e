package course

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/operator"
)

// TestMain is the manager where StartSelf started it. No pod comes further there than
// First's PreBind.
func TestMain(m *testing.M) {
	first.plays(role{})
	second.plays(role{})
	operator.Main(m, func() {
		first.plays(role{preBind: func(ctx context.Context, _ *v1.Pod) *fwk.Status {
			<-ctx.Done()
			return fwk.AsStatus(ctx.Err())
		}})
		config, err := operator.SelfConfig()
		if err != nil {
			panic(err)
		}
		manager.MainWith(suiteOptions(config)...)
	})
}

// startChild starts a manager beside the suite, which must have stopped its
// own.
func startChild(ctx SpecContext) *operator.Manager {
	GinkgoHelper()
	child, err := operator.StartSelf(ctx, cp, slices.Concat(operator.ShortLease, []string{"--default-profile="})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(child.Process) })
	return child
}
