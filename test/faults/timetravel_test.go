package faults

import (
	"context"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/tcpproxy"
)

// lagging is an API server whose connection to etcd can be frozen: what its watch caches hold
// is what was there before.
type lagging struct {
	config  *rest.Config
	process *controlplane.Process
	link    *tcpproxy.Proxy
}

// startLagging starts a lagging API server until the spec ends. resources are those, as
// group/resource, that it reads through the connection that can be frozen; all where there are
// none. It answers a list at resource version 0 from its watch caches, as old as they may be, and
// has no lists as the beginning of a watch, which would be current.
func (e *testEnv) startLagging(ctx context.Context, resources ...string) *lagging {
	GinkgoHelper()
	l := &lagging{link: e.startProxy(strings.TrimPrefix(e.cp.Etcd(), "http://"))}
	frozen := "http://" + l.link.Address()
	args := []string{"--feature-gates=GenericWorkload=true,WatchList=false"}
	if len(resources) == 0 {
		args = append(args, "--etcd-servers="+frozen)
	}
	for _, resource := range resources {
		args = append(args, "--etcd-servers-overrides="+resource+"#"+frozen)
	}
	l.config = e.startAPIServer(ctx, args...)
	l.process = e.cp.Process("kube-apiserver")
	DeferCleanup(func() {
		l.link.Thaw()
		e.cp.Kill(l.process)
	})
	return l
}

// kubeconfigFor returns a kubeconfig that goes through front, for either API server.
func (e *testEnv) kubeconfigFor(ctx context.Context, l *lagging) string {
	GinkgoHelper()
	config := e.accountConfig(ctx)
	config.CAData = append(append([]byte(nil), config.CAData...), l.config.CAData...)
	return e.kubeconfig("either", config)
}

// moveTo lets the managers reach that API server from now on.
func (p *play) moveTo(config *rest.Config) {
	p.front.Retarget(strings.TrimPrefix(config.Host, "https://"))
}

var _ = DescribeTable("A manager is moved to an API server that lags", func(ctx SpecContext, l launch, ends, restart bool, resources []string) {
	long()
	other := env.startLagging(ctx, resources...)
	l.kubeconfig = env.kubeconfigFor(ctx, other)
	DeferCleanup(func() { (&play{testEnv: env}).moveTo(env.config) })
	env.run(ctx, fault{
		launch: l, ends: ends, lasts: 15 * time.Second,
		begin: func(ctx context.Context, p *play) func(context.Context) {
			other.link.Freeze()
			p.expectBinds(warm, recovery, "binds that the other API server does not know")
			p.moveTo(other.config)
			if restart {
				Expect(p.leader().manager().Signal(syscall.SIGKILL)).To(Succeed())
			}
			return func(context.Context) { other.link.Thaw() }
		},
	})
},
	Entry("in everything", limit, elected, true, false, nil),
	Entry("in everything, without election", limit, noElection, false, false, nil),
	Entry("in pods, without election", limit, noElection, false, false, []string{"/pods"}),
	Entry("in nodes, without election", limit, noElection, false, false, []string{"/nodes"}),
	Entry("in pods, and starts there", limit, elected, true, true, []string{"/pods"}),
	Entry("in nodes, and starts there", limit, elected, true, true, []string{"/nodes"}),
	Entry("in pods and nodes, and starts there", limit, elected, true, true, []string{"/pods", "/nodes"}),
	Entry("in ConfigMaps and Leases, and starts there", limit, elected, true, true, []string{"/configmaps", "coordination.k8s.io/leases"}),
)
