package swap

import (
	"slices"
	"strings"

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
)

// wantHeld wants the pod to wait for its profile, and to say why, unless it was
// under way already.
func (c *cell) wantHeld(reason string) {
	told, place := "False "+reason, queue.Held
	switch {
	case c.place.Committed:
		told, place = "True ", ""
	case c.place.ArrivesAfter() && c.Deleted:
		// Nobody here knows it.
		told, place = "", ""
	}
	c.isAt(place, "while the profile is away")
	c.Eventually(c.told).Should(Equal(told), "while the profile is away")
}

// told is the pod's PodScheduled condition.
func (c *cell) told() string {
	pod := &v1.Pod{}
	c.Expect(admin.Get(c.ctx, client.ObjectKeyFromObject(c.pod), pod)).To(Succeed())
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			return string(condition.Status) + " " + condition.Reason
		}
	}
	return ""
}

// wantBound wants the pod to be bound once, by one of those, in its nth attempt,
// and whoever asks to be told the same.
func (c *cell) wantBound(by []stamp) {
	c.eventually(func(g Gomega) {
		g.Expect(seen.of(c.pod.UID).bindings).NotTo(BeEmpty(), "it is %q, and says %q", c.at(), c.told())
	}, "the pod is bound")
	life := seen.of(c.pod.UID)
	said, hashes := c.wordOf(life.last), sets.New[string]()
	for _, one := range by {
		hashes.Insert(one.Hash)
	}
	c.Expect(hashes.Has(said.Hash)).To(BeTrue(), "bound by %v, want one of %v", said.stamp, by)
	c.Expect(slices.ContainsFunc(c.history, func(r ran) bool { return r.stamp == said.stamp })).To(BeTrue(),
		"bound by %v; these ran: %v", said.stamp, c.history)
	c.Expect(said.Attempts).To(Equal(c.place.Attempts), "attempts")
	c.Eventually(c.told).Should(Equal("True "))
	c.eventually(func(g Gomega) { g.Expect(c.announced(g)).To(Equal(1)) }, "one event says that it was bound")
	c.Eventually(c.sent).Should(HaveExactElements(201), "one Binding is written, and counts")
	c.Expect(seen.of(c.pod.UID).bindings).To(HaveLen(1), "how often it came to a node")
}

// announced is how many events say that the pod was bound.
func (c *cell) announced(g Gomega) (n int) {
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

// sent is what the API server answered to the pod's Bindings.
func (c *cell) sent() (codes []int) {
	for _, b := range slices.DeleteFunc(bindings.Bindings(), func(b faultproxy.Binding) bool {
		return b.Namespace != c.name || b.Pod != subject
	}) {
		codes = append(codes, b.Code)
	}
	return codes
}

// wantAsked wants the plugins that heard of the binding to be of one
// generation: that which ran when the pod came to its place, or a later one.
func (c *cell) wantAsked() {
	early := c.place.Committed || c.change.KeepsGeneration
	heard := func() (found []*player) {
		for _, p := range c.all() {
			n := count(p, "PostBind")
			c.Expect(n).To(BeNumerically("<=", 1), "how often a %s heard of the binding", p.PluginName)
			if n > 0 {
				found = append(found, p)
			}
		}
		return found
	}
	c.Eventually(heard).ShouldNot(BeEmpty(), "somebody hears of the binding")
	for _, p := range heard() {
		c.Expect(p.handle == heard()[0].handle).To(BeTrue(), "those who heard of the binding are of one generation")
		c.Expect(slices.Contains(c.first, p)).To(Equal(early), "a %s heard of the binding that was there before", p.PluginName)
	}
}

// count is how often a player was asked at a point.
func count(p *player, point string) (n int) {
	for _, line := range p.Log.Lines() {
		if strings.HasPrefix(line, p.PluginName+"."+point) {
			n++
		}
	}
	return n
}

// wantNothingLeft wants nothing to be kept of the pod but that it has a node,
// and of the generations only what runs; and when that ends, nothing.
func (c *cell) wantNothingLeft() {
	c.eventually(func(g Gomega) {
		rooms := berth.Scheduler().Components()
		g.Expect(c.at()).To(BeEmpty(), "in the queue")
		g.Expect(rooms.Waiting.Has(c.pod.UID)).To(BeFalse(), "on Permit")
		g.Expect(rooms.Cache.NominatedNode(c.pod.UID)).To(BeEmpty(), "room is kept for it")
		g.Expect(rooms.Cache.IsAssigned(c.pod.UID)).To(BeTrue(), "it counts on its node")
	}, "nothing is left of the pod")
	running, ok := berth.Scheduler().Profiles().Running(c.name)
	c.Expect(ok).To(BeTrue())
	c.Expect(stamp{running.Blueprint.Hash, running.Blueprint.Generation}).To(Equal(c.runs), "what runs")
	c.eventually(func(g Gomega) {
		var runs fwk.Handle
		if generation, ok := berth.Scheduler().Profiles().Acquire(c.name); ok {
			runs = generation.Framework
			generation.Release()
		}
		c.wantClosed(g, func(p *player) bool { return p.handle != runs })
	}, "only what runs is left")
	c.Expect(admin.Delete(c.ctx, c.profile)).To(Succeed())
	c.eventually(func(g Gomega) { c.wantClosed(g, func(*player) bool { return true }) }, "nothing runs on")
	c.eventually(func(g Gomega) { g.Expect(series(g)).NotTo(HaveKey(c.name)) }, "no metric is left")
}

// wantClosed wants each plugin to be closed once, and not to be asked after
// that, or not to be closed.
func (c *cell) wantClosed(g Gomega, closed func(*player) bool) {
	for i, p := range c.all() {
		lines, want := p.Log.Lines(), 0
		if closed(p) {
			want = 1
		}
		g.Expect(count(p, "Close")).To(Equal(want), "how often plugin %d, a %s, was closed", i, p.PluginName)
		if want > 0 {
			g.Expect(lines[len(lines)-1]).To(Equal(p.PluginName+".Close"), "plugin %d was asked after its end", i)
		}
	}
}

// series is how many metrics speak of a profile.
func series(g Gomega) map[string]int {
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

// wantRest wants the scheduler to keep nothing of all that came and went, and
// nobody to have been bound because of a flush.
func wantRest() {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		rooms := berth.Scheduler().Components()
		g.Expect(rooms.Queue.Places()).To(BeEmpty(), "in the queue")
		g.Expect(rooms.Queue.Check()).To(Succeed())
		markers, events := rooms.Queue.InFlightCounts()
		_, assumed := rooms.Cache.Sizes()
		g.Expect([]int{markers, events, assumed, rooms.Cache.Nominations(), rooms.Waiting.Len()}).To(
			HaveEach(0), "markers and events in the queue, pods assumed, promises of room, pods on Permit")
		g.Expect(berth.Scheduler().Profiles().Names()).To(BeEmpty())
	}).Should(Succeed())
	Expect(apitest.BoundAfterFlush(berth.Scheduler().Metrics())).To(BeZero())
}
