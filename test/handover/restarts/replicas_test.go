package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/operator"
)

// replica is a manager that is started again when it ends, as the kubelet would.
type replica struct {
	mu     sync.Mutex
	now    *operator.Manager
	starts int
}

type replicas []*replica

// keeps starts a replica, which ends with the spec.
func keeps(ctx context.Context) *replica {
	GinkgoHelper()
	crashes := "--crash-output-dir=" + GinkgoT().TempDir()
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	r, stop, stopped := &replica{}, make(chan struct{}), make(chan struct{})
	start := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		m, err := operator.StartWith(cp, manager, kubeconfig, crashes, "--default-profile=", "--metrics-secure=false")
		r.now, r.starts = m, r.starts+1
		return err
	}
	Expect(start()).To(Succeed())
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		for {
			m := r.manager()
			select {
			case <-stop:
				cp.End(m.Process)
				return
			case <-m.Ended():
				cp.End(m.Process) // its end is no fault of the control plane's
				Expect(start()).To(Succeed())
			}
		}
	}()
	DeferCleanup(func() {
		close(stop)
		<-stopped
	})
	return r
}

func (r *replica) manager() *operator.Manager {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *replica) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

func (r *replica) signal(s syscall.Signal) {
	GinkgoHelper()
	m, before := r.manager(), r.started()
	Expect(m.Signal(s)).To(Succeed())
	Eventually(r.started).WithTimeout(time.Minute).Should(BeNumerically(">", before))
}

// metrics returns what the replica serves; nothing while it is starting.
func (r *replica) metrics(ctx context.Context) string {
	answer, err := operator.Answer(ctx, "http://"+r.manager().Metrics+"/metrics")
	text, served := strings.CutPrefix(answer, "200 ")
	if err != nil || !served {
		return ""
	}
	return text
}

// leader returns the replica that says that it leads: nil when none does, and a failure
// when both do.
func (both replicas) leader(ctx context.Context, witness *operator.Witness) *replica {
	GinkgoHelper()
	var leader *replica
	for _, r := range both {
		leads, err := witness.Read([]byte(r.metrics(ctx)))
		Expect(err).NotTo(HaveOccurred())
		if leads {
			Expect(leader).To(BeNil(), "both replicas say that they lead")
			leader = r
		}
	}
	return leader
}

// waitOut reads what the replicas report while the API server is away. None leads at the
// end; each ended once at most, waits since, alive and not ready.
func (both replicas) waitOut(ctx context.Context, witness *operator.Witness) {
	GinkgoHelper()
	var before []int
	for _, r := range both {
		before = append(before, r.started())
	}
	var leader *replica
	Consistently(func() error {
		leader = both.leader(ctx, witness)
		return errors.Join(both.alive(ctx)...)
	}).WithTimeout(outage).WithPolling(200 * time.Millisecond).Should(Succeed())
	Expect(leader).To(BeNil(), "a Lease that nobody can have renewed is held")
	ended := 0
	for i, r := range both {
		Expect(r.started()-before[i]).To(BeNumerically("<=", 1), "starts of replica %d", i)
		if r.started() > before[i] {
			ended++
			Expect(operator.Answer(ctx, "http://"+r.manager().Probes+"/readyz?verbose")).To(
				SatisfyAll(HavePrefix("500"), ContainSubstring("[-]api-server failed")))
		}
	}
	Expect(ended).To(Equal(1), "the one that led ends")
}

// alive returns the answers of liveness probes that would have the kubelet restart a
// replica. One that has just been started answers none.
func (both replicas) alive(ctx context.Context) (failed []error) {
	for _, r := range both {
		if answer, err := operator.Answer(ctx, "http://"+r.manager().Probes+"/livez"); err == nil && answer != "200 ok" {
			failed = append(failed, errors.New(answer))
		}
	}
	return failed
}
