package faults

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = DescribeTable("The manager's process", func(ctx SpecContext, f fault) {
	long()
	env.run(ctx, f)
},
	Entry("is killed, and a standby takes over", limit, fault{
		launch: elected, replicas: 2, ends: true, lasts: 3 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) {
			Expect(p.leader().manager().Signal(syscall.SIGKILL)).To(Succeed())
			return func(context.Context) {}
		},
	}),
	Entry("is stopped for longer than its Lease, and a standby takes over", limit, fault{
		launch: elected, replicas: 2, ends: true, binds: true, lasts: 15 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) { return hang(p.leader().manager()) },
	}),
	Entry("is stopped for longer than a cycle may take, alone and without election", limit, fault{
		launch: noElection, lasts: 20 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) { return hang(p.leader().manager()) },
	}),
	Entry("gets 10 ms of CPU time and then none for 90 ms", limit, fault{
		lasts: 20 * time.Second, binds: true,
		begin: func(_ context.Context, p *play) func(context.Context) {
			end := p.leader().manager().Pulse(10*time.Millisecond, 90*time.Millisecond)
			return func(context.Context) { end() }
		},
	}),
	// The Go runtime's limit: control groups need permissions that not every machine gives.
	Entry("has a memory limit that is lower than what it needs", limit, fault{
		launch: launch{environment: []string{"GOMEMLIMIT=24MiB"}}, lasts: 20 * time.Second, binds: true,
		begin: func(context.Context, *play) func(context.Context) { return func(context.Context) {} },
	}),
	Entry("can open no file and no connection while it loses those that it has", limit, fault{
		launch: noElection, lasts: 15 * time.Second, begin: exhaustFiles,
	}),
	Entry("can open no file and no connection, and cannot renew its Lease", limit, fault{
		launch: elected, ends: true, lasts: 15 * time.Second, begin: exhaustFiles,
	}),
)

// exhaustFiles lets a manager open nothing, and cuts its connections.
func exhaustFiles(_ context.Context, p *play) func(context.Context) {
	GinkgoHelper()
	pid := p.leader().manager().PID()
	before, err := limitFiles(pid, 3) // what is open stays open
	Expect(err).NotTo(HaveOccurred())
	p.front.Cut()
	return func(context.Context) {
		GinkgoHelper()
		if _, err := limitFiles(pid, before); err != nil {
			Expect(err).To(MatchError(syscall.ESRCH), "the process may have ended")
		}
	}
}
