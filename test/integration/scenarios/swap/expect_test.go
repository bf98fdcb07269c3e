package swap

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// expectHeld expects the pod to be held with a reason, unless it was committed before.
func (c *cell) expectHeld(reason string) {
	condition, place := "False "+reason, queue.Held
	switch {
	case c.place.Committed:
		condition, place = "True ", ""
	case c.place.ArrivesAfter() && c.Deleted:
		// No scheduler serves it.
		condition, place = "", ""
	}
	c.expectPlace(place, "while the profile is away")
	c.Eventually(c.podCondition).Should(Equal(condition), "while the pods are held")
}

// podCondition returns the pod's condition PodScheduled.
func (c *cell) podCondition() string {
	pod := &v1.Pod{}
	c.Expect(admin.Get(c.ctx, client.ObjectKeyFromObject(c.pod), pod)).To(Succeed())
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			return string(condition.Status) + " " + condition.Reason
		}
	}
	return ""
}

// expectBound expects the pod to be bound once, by one of these generations, and condition,
// Event and Binding to agree.
func (c *cell) expectBound(by []generationID) {
	c.eventually(func(g Gomega) {
		g.Expect(podHistory.of(c.pod.UID).bindings).NotTo(BeEmpty(), "it is in %q, with condition %q", c.queuePlace(), c.podCondition())
	}, "the pod is bound")
	history := podHistory.of(c.pod.UID)
	record, hashes := c.readRecord(history.last), sets.New[string]()
	for _, one := range by {
		hashes.Insert(one.Hash)
	}
	c.Expect(hashes.Has(record.Hash)).To(BeTrue(), "bound by %v, want one of %v", record.generationID, by)
	c.Expect(slices.ContainsFunc(c.history, func(r runPeriod) bool { return r.generationID == record.generationID })).To(BeTrue(),
		"bound by %v; these ran: %v", record.generationID, c.history)
	c.Eventually(c.podCondition).Should(Equal("True "))
	c.eventually(func(g Gomega) { g.Expect(c.scheduledEvents(g)).To(Equal(1)) }, "one event says that it was bound")
	c.Eventually(func() []int { return c.bindingCodes(subject) }).Should(HaveExactElements(201), "one Binding is sent, and succeeds")
	c.Expect(podHistory.of(c.pod.UID).bindings).To(HaveLen(1), "how often it got a node")
}

// expectAttempts expects the pod to be bound in its nth attempt, and a pod that had an error
// not to be bound before its backoff ended. Both read what was recorded: a change can take
// longer than a backoff.
func (c *cell) expectAttempts() {
	const backoff = swapmatrix.InitialBackoffSeconds * time.Second
	history := podHistory.of(c.pod.UID)
	attempts := Equal(c.place.Attempts)
	if c.place.BacksOff {
		c.Expect(history.bindings[0]).To(BeTemporally(">=", c.failsAfter.Add(backoff)), "when it got a node: its backoff is kept")
		if c.acceptedBy.Sub(c.failsAfter) >= backoff {
			// The first generation may have refused it again.
			attempts = BeNumerically(">=", c.place.Attempts)
		}
	}
	if c.place.Attempts > 0 {
		c.Expect(c.readRecord(history.last).Attempts).To(attempts, "attempts")
	}
}

// scheduledEvents returns how many events say that the pod was bound.
func (c *cell) scheduledEvents(g Gomega) (n int) {
	var list eventsv1.EventList
	g.Expect(admin.List(c.ctx, &list, client.InNamespace(c.name))).To(Succeed())
	for _, e := range list.Items {
		if e.Regarding.UID == c.pod.UID && e.Reason == "Scheduled" {
			n++
			if e.Series != nil {
				n += int(e.Series.Count)
			}
		}
	}
	return n
}

// bindingCodes returns the API server's responses to the Bindings of a pod of the cell.
func (c *cell) bindingCodes(pod string) (codes []int) {
	for _, b := range slices.DeleteFunc(bindings.Bindings(), func(b faultproxy.Binding) bool {
		return b.Namespace != c.name || b.Pod != pod
	}) {
		codes = append(codes, b.Code)
	}
	return codes
}

// expectPlugins expects the plugins whose PostBind was called to be of one generation: the
// one that ran when the pod came to its place, or a later one.
func (c *cell) expectPlugins() {
	firstGeneration := c.place.Committed || c.change.KeepsGeneration
	called := func() (found []*cellPlugin) {
		for _, p := range c.all() {
			n := countCalls(p, "PostBind")
			c.Expect(n).To(BeNumerically("<=", 1), "how often PostBind of a %s was called", p.PluginName)
			if n > 0 {
				found = append(found, p)
			}
		}
		return found
	}
	c.Eventually(called).ShouldNot(BeEmpty(), "PostBind is called")
	for _, p := range called() {
		c.Expect(p.handle == called()[0].handle).To(BeTrue(), "the plugins whose PostBind was called are of one generation")
		c.Expect(slices.Contains(c.firstPlugins, p)).To(Equal(firstGeneration), "a %s whose PostBind was called is of the first generation", p.PluginName)
	}
}

// countCalls returns the number of calls of a plugin at a point.
func countCalls(p *cellPlugin, point string) (n int) {
	for _, line := range p.Log.Lines() {
		if strings.HasPrefix(line, p.PluginName+"."+point) {
			n++
		}
	}
	return n
}

// expectNothingLeft expects the scheduler to have nothing of the pod but its place on the
// node, and no generation but the running one; and none after the profile is deleted.
func (c *cell) expectNothingLeft() {
	c.eventually(func(g Gomega) {
		components := berth.Scheduler().Components()
		g.Expect(c.queuePlace()).To(BeEmpty(), "in the queue")
		g.Expect(components.Waiting.Has(c.pod.UID)).To(BeFalse(), "on Permit")
		g.Expect(components.Cache.NominatedNode(c.pod.UID)).To(BeEmpty(), "nominated")
		g.Expect(components.Cache.IsAssigned(c.pod.UID)).To(BeTrue(), "assigned to its node")
	}, "nothing is left of the pod")
	running, ok := berth.Scheduler().Profiles().Running(c.name)
	c.Expect(ok).To(BeTrue())
	c.Expect(generationID{running.Blueprint.Hash, running.Blueprint.Generation}).To(Equal(c.running), "what runs")
	c.eventually(func(g Gomega) {
		var runs fwk.Handle
		if generation, ok := berth.Scheduler().Profiles().Acquire(c.name); ok {
			runs = generation.Framework
			generation.Release()
		}
		c.expectClosed(g, func(p *cellPlugin) bool { return p.handle != runs })
	}, "only the running generation is left")
	c.Expect(admin.Delete(c.ctx, c.profile)).To(Succeed())
	c.eventually(func(g Gomega) { c.expectClosed(g, func(*cellPlugin) bool { return true }) }, "no generation is left")
	c.eventually(func(g Gomega) { g.Expect(seriesByProfile(g)).NotTo(HaveKey(c.name)) }, "no metric is left")
}

// expectClosed expects each plugin for which closed is true to be closed once, as its last
// call, and others not to be closed.
func (c *cell) expectClosed(g Gomega, closed func(*cellPlugin) bool) {
	for i, p := range c.all() {
		lines, want := p.Log.Lines(), 0
		if closed(p) {
			want = 1
		}
		g.Expect(countCalls(p, "Close")).To(Equal(want), "how often plugin %d, a %s, was closed", i, p.PluginName)
		if want > 0 {
			g.Expect(lines[len(lines)-1]).To(Equal(p.PluginName+".Close"), "plugin %d was called after Close", i)
		}
	}
}

// seriesByProfile counts the metrics by the label profile.
func seriesByProfile(g Gomega) map[string]int {
	found := map[string]int{}
	for _, family := range apitest.Gather(g, berth.Scheduler().Metrics()) {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "profile" {
					found[label.GetValue()]++
				}
			}
		}
	}
	return found
}

// expectEmptyScheduler expects the scheduler to have no pod and no profile, and no pod to
// have been bound after a flush.
func expectEmptyScheduler() {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		components := berth.Scheduler().Components()
		g.Expect(components.Queue.Places()).To(BeEmpty(), "in the queue")
		g.Expect(components.Queue.Check()).To(Succeed())
		markers, events := components.Queue.InFlightCounts()
		_, assumed := components.Cache.Sizes()
		waiting := 0
		components.Waiting.Each(func(fwk.WaitingPod) { waiting++ })
		g.Expect([]int{markers, events, assumed, components.Cache.Nominations(), waiting}).To(
			HaveEach(0), "in-flight pods and events, assumed pods, nominations, pods on Permit")
		g.Expect(berth.Scheduler().Profiles().Names()).To(BeEmpty())
	}).Should(Succeed())
	Expect(apitest.BoundAfterFlush(berth.Scheduler().Metrics())).To(BeZero())
}
