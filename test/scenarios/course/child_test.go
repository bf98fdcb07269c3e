package course

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/house"
)

// TestMain is the manager where it was started as one. No pod comes further
// there than First's PreBind.
func TestMain(m *testing.M) {
	first.plays(role{})
	second.plays(role{})
	if !house.IsChild() {
		os.Exit(m.Run())
	}
	RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	first.plays(role{preBind: func(ctx context.Context, _ *v1.Pod) *fwk.Status {
		<-ctx.Done()
		return fwk.AsStatus(ctx.Err())
	}})
	house.BeChild(func(cfg *rest.Config) house.Options { return furnished(cfg, house.Hasty) })
}

// startChild starts a manager beside the suite, which must have stopped its
// own.
func startChild(ctx SpecContext) *house.Child {
	GinkgoHelper()
	child, err := house.StartChild(ctx, cp, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(child.Kill)
	return child
}
