package faults

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/checker"
)

var _ = DescribeTable("The API server of the managers", func(ctx SpecContext, f fault) {
	long()
	env.run(ctx, f)
},
	Entry("is killed, and is back after some seconds", limit, fault{
		launch: elected, ends: true, lasts: 5 * time.Second, begin: killAPIServer, skips: untilRolesAreRead,
	}),
	Entry("is killed, and a manager without election waits for it", limit, fault{
		launch: noElection, lasts: 20 * time.Second, begin: killAPIServer, skips: untilRolesAreRead,
	}),
	Entry("hangs for 30 s, with two managers of the shipped Lease", limit, fault{
		replicas: 2, ends: true, lasts: 30 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) { return hang(p.api) },
	}),
	Entry("hangs for 30 s, and a manager without election waits", limit, fault{
		launch: noElection, lasts: 30 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) { return hang(p.api) },
	}),
	Entry("runs a third of the time", limit, fault{
		lasts: 15 * time.Second, binds: true,
		begin: func(_ context.Context, p *play) func(context.Context) {
			end := p.api.Pulse(20*time.Millisecond, 40*time.Millisecond)
			return func(context.Context) { end() }
		},
	}),
	Entry("answers 200 ms later", limit, fault{
		lasts: 15 * time.Second, binds: true,
		begin: func(_ context.Context, p *play) func(context.Context) {
			p.front.Delay(100 * time.Millisecond)
			return func(context.Context) { p.front.Delay(0) }
		},
	}),
	Entry("loses every connection four times a second", limit, fault{
		launch: elected, ends: true, lasts: 10 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ticker := time.NewTicker(250 * time.Millisecond); ; {
					select {
					case <-ticker.C:
						p.front.Cut()
					case <-ctx.Done():
						ticker.Stop()
						return
					}
				}
			}()
			return func(context.Context) {
				cancel()
				<-done
			}
		},
	}),
	Entry("is behind a load balancer that forgets the connections of a manager without election", limit, fault{
		launch: noElection, lasts: 60 * time.Second, binds: true,
		begin: func(_ context.Context, p *play) func(context.Context) {
			p.front.Strand()
			return func(context.Context) {}
		},
	}),
)

// untilRolesAreRead has what an API server breaks that was started again.
var untilRolesAreRead = map[checker.Invariant]string{
	checker.I10: "an API server forbids what it gets before it has read the roles",
}

// killAPIServer kills the API server of the managers until it is started again.
func killAPIServer(_ context.Context, p *play) func(context.Context) {
	GinkgoHelper()
	again := p.cp.Kill(p.api)
	return func(ctx context.Context) {
		GinkgoHelper()
		var err error
		p.api, err = again(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
}
