package faults

import (
	"context"
	"encoding/base64"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = DescribeTable("etcd", func(ctx SpecContext, f fault) {
	if f.lasts > 3*time.Second {
		long()
	}
	env.run(ctx, f)
},
	Entry("is killed, and is back after some seconds", limit, fault{
		launch: elected, ends: true, lasts: 3 * time.Second, begin: killEtcd,
	}),
	Entry("is killed, and a manager without election waits for it", limit, fault{
		launch: noElection, lasts: 20 * time.Second, begin: killEtcd,
	}),
	Entry("hangs for longer than a Lease", limit, fault{
		launch: elected, replicas: 2, ends: true, lasts: 15 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) { return hang(p.cp.Process("etcd")) },
	}),
	Entry("runs a fifth of the time", limit, fault{
		lasts: 15 * time.Second, binds: true,
		begin: func(_ context.Context, p *play) func(context.Context) {
			end := p.cp.Process("etcd").Pulse(20*time.Millisecond, 80*time.Millisecond)
			return func(context.Context) { end() }
		},
	}),
	Entry("answers the managers' API server 100 ms later", limit, fault{
		lasts: 15 * time.Second, binds: true,
		begin: func(_ context.Context, p *play) func(context.Context) {
			p.etcdLink.Delay(50 * time.Millisecond)
			return func(context.Context) { p.etcdLink.Delay(0) }
		},
	}),
	Entry("is out of reach of the managers' API server, whose connections hang", limit, fault{
		launch: elected, ends: true, lasts: 15 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) {
			p.etcdLink.Freeze()
			return func(context.Context) { p.etcdLink.Thaw() }
		},
	}),
	Entry("is out of reach, and a manager without election waits", limit, fault{
		launch: noElection, lasts: 40 * time.Second,
		begin: func(_ context.Context, p *play) func(context.Context) {
			p.etcdLink.Freeze()
			return func(context.Context) { p.etcdLink.Thaw() }
		},
	}),
	Entry("is full, which ends when it is compacted and defragmented", limit, fault{
		launch: elected, ends: true, lasts: 10 * time.Second, begin: fillEtcd,
	}),
	Entry("is full, and a manager without election waits", limit, fault{
		launch: noElection, lasts: 25 * time.Second, begin: fillEtcd,
	}),
)

// killEtcd kills etcd until it is started again.
func killEtcd(_ context.Context, p *play) func(context.Context) {
	GinkgoHelper()
	again := p.cp.Kill(p.cp.Process("etcd"))
	return func(ctx context.Context) {
		GinkgoHelper()
		Expect(again(ctx)).Error().NotTo(HaveOccurred())
	}
}

// hang stops a process until it continues.
func hang(process interface{ Signal(syscall.Signal) error }) (end func(context.Context)) {
	GinkgoHelper()
	Expect(process.Signal(syscall.SIGSTOP)).To(Succeed())
	return func(context.Context) {
		GinkgoHelper()
		Expect(process.Signal(syscall.SIGCONT)).To(Succeed())
	}
}

// fillEtcd writes to etcd until it refuses, because its quota is used up.
func fillEtcd(ctx context.Context, p *play) func(context.Context) {
	GinkgoHelper()
	value := make([]byte, 1<<20)
	for i := 0; ; i++ {
		err := p.cp.Store(ctx, fmt.Sprintf("/filler/%d", i), value)
		if err != nil {
			Expect(err).To(MatchError(ContainSubstring("database space exceeded")))
			break
		}
		Expect(i).To(BeNumerically("<", 2*quota>>20), "etcd has no quota")
	}
	return func(ctx context.Context) {
		GinkgoHelper()
		p.emptyEtcd(ctx)
	}
}

// emptyEtcd is what an administrator does with an etcd that is full.
func (p *play) emptyEtcd(ctx context.Context) {
	GinkgoHelper()
	key := func(k string) string { return base64.StdEncoding.EncodeToString([]byte(k)) }
	var deleted struct {
		Header struct{ Revision string }
	}
	Expect(p.cp.CallEtcd(ctx, "kv/deleterange", map[string]string{"key": key("/filler/"), "range_end": key("/filler0")}, &deleted)).To(Succeed())
	// The suite's own watches need what is newer than this.
	Expect(p.cp.CallEtcd(ctx, "kv/compaction", map[string]any{"revision": deleted.Header.Revision, "physical": true}, nil)).To(Succeed())
	Expect(p.cp.CallEtcd(ctx, "maintenance/defragment", map[string]any{}, nil)).To(Succeed())
	var raised struct{ Alarms []map[string]any }
	Expect(p.cp.CallEtcd(ctx, "maintenance/alarm", map[string]any{"action": "GET"}, &raised)).To(Succeed())
	Expect(raised.Alarms).NotTo(BeEmpty(), "etcd was full")
	for _, alarm := range raised.Alarms {
		alarm["action"] = "DEACTIVATE"
		Expect(p.cp.CallEtcd(ctx, "maintenance/alarm", alarm, nil)).To(Succeed())
	}
}
