package faults

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/operator"
)

// warm is how many pods are bound before a fault, and after it.
const warm = 20

// fault is a fault and what is expected of it.
type fault struct {
	launch
	// replicas is how many managers run; 0 stands for one.
	replicas int
	// begin causes the fault, and returns what ends it.
	begin func(ctx context.Context, p *play) (end func(ctx context.Context))
	// lasts is for how long the fault stays.
	lasts time.Duration
	// binds says that pods are bound meanwhile.
	binds bool
	// ends says that the manager may end meanwhile: one that cannot renew its Lease has to.
	ends bool
	// problems says that the profile may be reported as one that does not run.
	problems bool
	// skips are invariants that the fault breaks on purpose, and why.
	skips map[checker.Invariant]string
}

// play is one run of a fault.
type play struct {
	*testEnv
	*traffic
	replicas []*replica
}

// leader returns the replica that leads.
func (p *play) leader() *replica {
	GinkgoHelper()
	var leader *replica
	Eventually(func() *replica {
		for _, r := range p.replicas {
			if r.leads() {
				leader = r
			}
		}
		return leader
	}).ShouldNot(BeNil())
	return leader
}

// run runs a fault under traffic, and expects that everything is as it must be afterwards.
func (e *testEnv) run(ctx context.Context, f fault) {
	GinkgoHelper()
	p := &play{testEnv: e}
	if slices.Contains(f.flags, noLease) {
		e.forgetLeaders(ctx)
	}
	check := e.startChecker(ctx, f.skips)
	for range max(1, f.replicas) {
		p.replicas = append(p.replicas, e.startReplica(ctx, f.launch))
	}
	p.traffic = e.startTraffic(ctx, check)
	p.expectBinds(2*warm, recovery, "binds before the fault")
	before, err := p.leader().usage(ctx)
	Expect(err).NotTo(HaveOccurred())
	witness, err := operator.WatchProblems(ctx, e.cp)
	Expect(err).NotTo(HaveOccurred())

	By("the fault")
	boundBefore := bound(check)
	end := f.begin(ctx, p)
	// One pod at the beginning, and one when the fault has shown its effect.
	p.createUnfit(ctx, "unfit-early")
	p.watch(ctx, f, witness, f.lasts*4/5)
	p.createUnfit(ctx, "unfit-late")
	p.watch(ctx, f, witness, f.lasts/5)
	if f.binds {
		Expect(bound(check)).To(BeNumerically(">", boundBefore+warm), "pods are bound during the fault")
	}

	By("its end")
	// Nobody changes the profile afterwards: what the fault left undone has to be made up for.
	p.stopChanges()
	end(ctx)
	ended := time.Now()
	p.expectBinds(warm, recovery, "binds after the fault")
	AddReportEntry("from the end of the fault to the next binds", time.Since(ended).Round(100*time.Millisecond).String())
	e.expectSettled(ctx, p.traffic, p.replicas, before)
	if !f.problems {
		Expect(profileProblems(witness)).To(BeEmpty())
	}
}

// watch watches the managers under a fault for that long.
func (p *play) watch(ctx context.Context, f fault, witness *operator.ProblemRecorder, lasts time.Duration) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		for i, r := range p.replicas {
			g.Expect(r.live(ctx)).To(Succeed(), "replica %d", i)
			if !f.ends {
				g.Expect(r.restarts()).To(BeZero(), "replica %d has ended", i)
			}
		}
		if !f.problems {
			g.Expect(profileProblems(witness)).To(BeEmpty())
		}
	}).WithTimeout(lasts).Should(Succeed())
}

// createUnfit creates a pod that wants a node which does not exist: no pod that leaves makes a
// manager try it again, so that what could not be reported of it has to be made up for. The fault
// may refuse it.
func (p *play) createUnfit(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, _ = p.client.CoreV1().Pods(namespace).Create(ctx, podOf(profile, name).Requests("cpu", "64").NodeSelector("no-such", "node").Valid(), metav1.CreateOptions{})
}

// noElection is a manager that does not end when the API server is away.
var noElection = launch{flags: []string{noLease}}

const noLease = "--leader-elect=false"

// elected is a manager with a short Lease.
var elected = launch{flags: shortLease}
