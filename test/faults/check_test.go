package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/debug"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// recovery is how long after a fault everything may take to be as without it. A client of
	// the API server may have to wait for half a minute until it tries again.
	recovery = 90 * time.Second
	// moreGoroutines and moreFiles are how many more a process may have than before: requests
	// that are under way, and connections that the API server has not closed.
	moreGoroutines, moreFiles = 40, 20
)

// expectSettled stops the traffic, and waits until everything is as it must be without a fault.
func (e *testEnv) expectSettled(ctx context.Context, t *traffic, rs []*replica, before usage) {
	GinkgoHelper()
	t.stop()
	began := time.Now()
	after := func(what string) { AddReportEntry(what, time.Since(began).Round(100*time.Millisecond).String()) }
	expectNoViolation(ctx, t.checker, append([]checker.Invariant{checker.I3}, ofBinds...)...)
	after("until no pod waits that fits, and nothing is written")
	Eventually(func(g Gomega) { e.expectTrueStatus(ctx, g) }).WithTimeout(recovery).WithPolling(time.Second).Should(Succeed(), "what statuses say")
	after("until statuses are true")
	for i, r := range rs {
		Expect(r.crashes()).To(BeEmpty(), "replica %d", i)
		Eventually(r.usage).WithArguments(ctx).WithTimeout(recovery).WithPolling(time.Second).Should(SatisfyAll(
			HaveField("Goroutines", BeNumerically("<=", before.Goroutines+moreGoroutines)),
			HaveField("Files", BeNumerically("<=", before.Files+moreFiles)),
		), "replica %d, which had %+v before", i, before)
		Eventually(r.expectSameCache).WithArguments(ctx, e.debugger).WithTimeout(recovery).WithPolling(time.Second).Should(Succeed(), "replica %d", i)
	}
	after("until the process is as before")
}

// expectTrueStatus expects that the statuses of the profile, of the pods and of their
// SchedulingDecisions say what is.
func (e *testEnv) expectTrueStatus(ctx context.Context, g Gomega) {
	p, err := operator.Profile(ctx, e.cp, profile)
	g.Expect(err).NotTo(HaveOccurred())
	for _, condition := range []v1alpha1.ConditionType{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady,
	} {
		c := meta.FindStatusCondition(p.Status.Conditions, string(condition))
		g.Expect(c).To(HaveValue(SatisfyAll(HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", p.Generation))), string(condition))
	}
	g.Expect(p.Status.Conditions).NotTo(ContainElement(SatisfyAll(HaveField("Type", string(v1alpha1.ConditionDegraded)), HaveField("Status", metav1.ConditionTrue))))
	g.Expect(p.Status.Programmed).To(HaveValue(HaveField("Generation", p.Generation)))
	g.Expect(p.Status.Programmed.Revision).NotTo(BeEmpty(), "what runs is stored")

	pods, err := e.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var decisions v1alpha1.SchedulingDecisionList
	g.Expect(e.admin.List(ctx, &decisions, client.InNamespace(namespace))).To(Succeed())
	results := map[string]v1alpha1.DecisionResult{}
	for _, d := range decisions.Items {
		results[d.Name] = d.Status.Result
	}
	pending := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.SchedulerName != profile {
			continue
		}
		scheduled := scheduledCondition(pod)
		if pod.Spec.NodeName != "" {
			g.Expect(scheduled).To(HaveValue(HaveField("Status", corev1.ConditionTrue)), pod.Name)
			g.Expect(results[pod.Name]).To(BeElementOf(v1alpha1.ResultBound, v1alpha1.DecisionResult("")), "the decision of %s, which is bound", pod.Name)
			continue
		}
		pending++
		g.Expect(scheduled).To(HaveValue(HaveField("Reason", corev1.PodReasonUnschedulable)), pod.Name)
		g.Expect(results[pod.Name]).To(Equal(v1alpha1.ResultUnschedulable), "the decision of %s, which waits", pod.Name)
	}
	g.Expect(pending).To(BeNumerically(">", 0), "some pods fit nowhere, or the traffic is too small")
	g.Expect(p.Status.Queue).To(HaveValue(SatisfyAll(
		HaveField("Pending", BeEquivalentTo(pending)), HaveField("Unschedulable", BeEquivalentTo(pending)))), "status.queue")
}

// scheduledCondition returns the condition PodScheduled; nil where there is none.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// expectSameCache returns an error while the manager's cache and queue differ from the API
// server.
func (r *replica) expectSameCache(ctx context.Context, token string) error {
	body, err := read(ctx, "https://"+r.manager().Metrics+"/debug/berth/compare?format=json", token)
	if err != nil {
		return err
	}
	var compared debug.Comparison
	if err := json.Unmarshal(body, &compared); err != nil {
		return err
	}
	if compared.Stale != "" || len(compared.Differences) > 0 || len(compared.Assumed) > 0 {
		return fmt.Errorf("stale: %q, assumed: %+v, differences: %+v", compared.Stale, compared.Assumed, compared.Differences)
	}
	return nil
}

// nodeOrder returns the nodes that the manager's cache has, as text.
func (r *replica) nodeOrder(ctx context.Context, token string) (string, error) {
	body, err := read(ctx, "https://"+r.manager().Metrics+"/debug/berth/order", token)
	return string(body), err
}

// profileProblems returns what users read about a profile that does not run. A trial that loses
// pods is none: there are more pods than fit, and other weights may leave out other ones.
func profileProblems(witness *operator.ProblemRecorder) (problems []string) {
	for _, problem := range witness.Problems() {
		lost := strings.Contains(problem, ": PodsLost: ")
		if !lost && (strings.HasPrefix(problem, "profile ") || strings.HasPrefix(problem, "event: SchedulingProfile")) {
			problems = append(problems, problem)
		}
	}
	return problems
}
