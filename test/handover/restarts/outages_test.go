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
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// outageDuration is longer than the shipped Lease is valid.
const outageDuration = 30 * time.Second

var _ = Describe("Two replicas with the shipped Lease, within ten minutes", func() {
	It("run every profile, bind every pod, and report nothing else, whatever ends them", func(ctx SpecContext) {
		node := fixture.Node("of-outages").Capacity("cpu", "8", "memory", "8Gi", "pods", "20").Obj()
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })
		served := []string{"outage-1", "outage-2", "outage-idle"}
		for i, name := range served {
			Expect(operator.ApplyProfile(ctx, cp, name, v1alpha1.SchedulingProfileSpec{PercentageOfNodesToScore: int32(20 + i)})).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(admin.Delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
			})
		}
		rs := replicas{startReplica(ctx), startReplica(ctx)}
		hashes := map[string]string{}
		for _, name := range served {
			p, err := operator.UntilProgrammed(ctx, cp, name)
			Expect(err).NotTo(HaveOccurred())
			hashes[name] = p.Status.Programmed.Hash
		}
		witness, err := operator.WatchProblems(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		binds := func(phase string) {
			GinkgoHelper()
			for _, name := range served[:2] {
				expectBound(ctx, name, name+"-"+phase)
			}
			Expect(witness.Problems()).To(BeEmpty(), phase)
		}
		leads := func() *replica { return rs.leader(ctx, witness) }

		for _, kill := range []string{"first-kill", "second-kill"} {
			By(kill)
			var leader *replica
			Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
			leader = leads()
			leader.signal(syscall.SIGKILL)
			Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
			binds(kill)
		}

		By("the API server hangs")
		api := cp.Process("kube-apiserver")
		Expect(api.Signal(syscall.SIGSTOP)).To(Succeed())
		rs.expectNoLeader(ctx, witness)
		Expect(api.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
		binds("hang")

		By("the API server ends")
		again := cp.StopAPIServer()
		rs.expectNoLeader(ctx, witness)
		Expect(again(ctx)).To(Succeed())
		Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
		binds("end")

		By("the leader's node is drained")
		leads().signal(syscall.SIGTERM)
		Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
		binds("drain")

		for _, name := range served {
			p, err := operator.Profile(ctx, cp, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Status.Programmed).To(HaveField("Hash", hashes[name]), name)
			r, err := cp.Client().AppsV1().ControllerRevisions(operator.Namespace).Get(ctx, p.Status.Programmed.Revision, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Annotations).NotTo(Or(HaveKey(v1alpha1.AnnotationCrashStack), HaveKey(v1alpha1.AnnotationBuildDeaths)), name)
		}
		for _, name := range served {
			Eventually(leads).Should(WithTransform(func(r *replica) string { return r.metrics(ctx) },
				ContainSubstring(`berth_profile_running{profile=%q} 1`, name)))
		}

		By("the witness reports a profile that does not run its pods")
		Expect(operator.ApplyProfile(ctx, cp, served[0], v1alpha1.SchedulingProfileSpec{PercentageOfNodesToScore: 20, State: v1alpha1.StatePaused})).To(Succeed())
		// A pod that is created before the profile is paused is bound.
		Eventually(operator.Profile).WithArguments(ctx, cp, served[0]).Should(HaveField("Status.Conditions",
			ContainElement(And(HaveField("Type", "Ready"), HaveField("Reason", string(v1alpha1.ReasonPaused))))))
		held := webPod("held", served[0])
		Expect(admin.Create(ctx, held)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, held, client.GracePeriodSeconds(0)))).To(Succeed())
		})
		Eventually(func() []string {
			leads()
			return witness.Problems()
		}).WithTimeout(2*time.Minute).Should(SatisfyAll(HaveEach(MatchRegexp("(?i)paused")), ContainElements(
			HavePrefix("profile outage-1: Ready=False"), HavePrefix("pod held: "), HavePrefix("berth_held_pods"), HavePrefix("berth_profile_condition"),
		)), "the watches of the witness may be idle for a minute after the outage, and then deliver in order")
	}, SpecTimeout(8*time.Minute))
})

// expectBound creates a pod of the profile and waits until it is bound.
func expectBound(ctx context.Context, profile, name string) {
	GinkgoHelper()
	pod := webPod(name, profile)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	})
	Eventually(scheduledCondition).WithArguments(ctx, pod).Should(HaveField("Status", v1.ConditionTrue))
}

func webPod(name, profile string) *v1.Pod {
	return fixture.Pod("default/" + name).SchedulerName(profile).Valid()
}

// replica is a manager that is restarted when it ends, as the kubelet would.
type replica struct {
	mu      sync.Mutex
	current *operator.Manager
	starts  int
}

type replicas []*replica

// startReplica starts a replica, until the spec ends.
func startReplica(ctx context.Context) *replica {
	GinkgoHelper()
	crashes := "--crash-output-dir=" + GinkgoT().TempDir()
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	r, stop, stopped := &replica{}, make(chan struct{}), make(chan struct{})
	start := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		m, err := operator.StartWith(cp, manager, kubeconfig, crashes, "--default-profile=", "--metrics-secure=false")
		r.current, r.starts = m, r.starts+1
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
				cp.End(m.Process) // the control plane does not count it as a failure
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
	return r.current
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

// metrics returns the metrics of the replica, "" while it is starting.
func (r *replica) metrics(ctx context.Context) string {
	answer, err := operator.Get(ctx, "http://"+r.manager().Metrics+"/metrics")
	text, served := strings.CutPrefix(answer, "200 ")
	if err != nil || !served {
		return ""
	}
	return text
}

// leader returns the replica whose metrics say that it leads, or nil. It fails if both do.
func (rs replicas) leader(ctx context.Context, witness *operator.ProblemRecorder) *replica {
	GinkgoHelper()
	var leader *replica
	for _, r := range rs {
		leads, err := witness.ReadMetrics([]byte(r.metrics(ctx)))
		Expect(err).NotTo(HaveOccurred())
		if leads {
			Expect(leader).To(BeNil(), "both replicas report that they lead")
			leader = r
		}
	}
	return leader
}

// expectNoLeader reads the metrics of the replicas during an outage. At the end none leads;
// each has ended at most once, and is alive and not ready.
func (rs replicas) expectNoLeader(ctx context.Context, witness *operator.ProblemRecorder) {
	GinkgoHelper()
	var before []int
	for _, r := range rs {
		before = append(before, r.started())
	}
	var leader *replica
	Consistently(func() error {
		leader = rs.leader(ctx, witness)
		return errors.Join(rs.failedProbes(ctx)...)
	}).WithTimeout(outageDuration).WithPolling(200 * time.Millisecond).Should(Succeed())
	Expect(leader).To(BeNil(), "a replica leads with a Lease that cannot have been renewed")
	ended := 0
	for i, r := range rs {
		Expect(r.started()-before[i]).To(BeNumerically("<=", 1), "starts of replica %d", i)
		if r.started() > before[i] {
			ended++
			Expect(operator.Get(ctx, "http://"+r.manager().Probes+"/readyz?verbose")).To(
				SatisfyAll(HavePrefix("500"), ContainSubstring("[-]api-server failed")))
		}
	}
	Expect(ended).To(Equal(1), "only the leader ended")
}

// failedProbes returns the failed liveness probes. A replica that has just started may not
// answer.
func (rs replicas) failedProbes(ctx context.Context) (failed []error) {
	for _, r := range rs {
		if answer, err := operator.Get(ctx, "http://"+r.manager().Probes+"/livez"); err == nil && answer != "200 ok" {
			failed = append(failed, errors.New(answer))
		}
	}
	return failed
}
