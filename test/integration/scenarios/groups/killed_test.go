package groups

import (
	"net/http"
	"slices"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/faultproxy"
)

// write is the nth of the writes of a kind for a gang.
type write struct {
	faultproxy.Kind
	nth int32
}

var (
	binding        = faultproxy.Kind{Method: http.MethodPost, Resource: "pods", Subresource: "binding"}
	groupCondition = faultproxy.Kind{Method: http.MethodPatch, Resource: "podgroups", Subresource: "status"}
	podCondition   = faultproxy.Kind{Method: http.MethodPatch, Resource: "pods", Subresource: "status"}
	eviction       = faultproxy.Kind{Method: http.MethodDelete, Resource: "pods"}
)

// killAt kills the manager before or after the write in the namespace, once.
func (env testEnv) killAt(is write, after bool) {
	killed, seen := berth, &atomic.Int32{}
	proxy.SetAllFaults(func(w faultproxy.Write) *faultproxy.Fault {
		if !is.Is(w, env.namespace) || seen.Add(1) != is.nth {
			return nil
		}
		return faultproxy.CutAround(after, killed.Kill)
	})
	DeferCleanup(func() { proxy.SetAllFaults(nil) })
}

// restartKilled waits for the end of the manager, and starts the next.
func restartKilled(ctx SpecContext) {
	GinkgoHelper()
	Eventually(berth.Ended()).Should(BeClosed())
	startBerth(ctx)
}

// moment is the moment of a kill: before or after a write.
type moment struct {
	write
	after bool
}

var _ = Describe("A manager that is killed while a gang is bound: the next one binds the rest of it before any other gang, killed", func() {
	for name, at := range map[string]moment{
		"before the first Binding":             {write{binding, 1}, false},
		"after the first Binding":              {write{binding, 1}, true},
		"before the last Binding":              {write{binding, 8}, false},
		"after the last Binding":               {write{binding, 8}, true},
		"before the condition of its PodGroup": {write{groupCondition, 1}, false},
		"after the condition of its PodGroup":  {write{groupCondition, 1}, true},
	} {
		It(name, specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 4, 2)
			env.killAt(at.write, at.after)
			group := env.podGroup(ctx, "first", 8)
			pods := env.members(ctx, "first", 0, 8)
			Eventually(berth.Ended()).Should(BeClosed())
			begun := boundOf(ctx, pods)(Default)
			second := env.podGroup(ctx, "second", 8)
			others := env.members(ctx, "second", 0, 8)
			restartKilled(ctx)
			if begun == 0 { // there is no rest, and either may be tried first
				Eventually(boundOf(ctx, append(slices.Clone(pods), others...))).Should(Equal(8))
				if boundOf(ctx, others)(Default) > 0 {
					group, pods, others = second, others, pods
				}
			}

			admin.ExpectBound(ctx, pods...)
			perNode := map[string]int{}
			for _, pod := range pods {
				perNode[admin.NodeName(ctx, pod)(Default)]++
			}
			Expect(perNode).To(And(HaveLen(4), HaveEach(2)), "pods by node, two of which fit on each")
			expectCondition(ctx, group, metav1.ConditionTrue, "Scheduled")
			expectWaiting(ctx, others...)
			for _, pod := range pods {
				admin.Remove(ctx, pod)
			}
			admin.ExpectBound(ctx, others...)
		})
	}
})

var _ = Describe("A manager that is killed while a gang preempts: the next one evicts what the whole gang needs, killed", func() {
	for name, at := range map[string]moment{
		"before the condition of a victim": {write{podCondition, 1}, false},
		"after the condition of a victim":  {write{podCondition, 1}, true},
		"after the first eviction":         {write{eviction, 1}, true},
		"before the last eviction":         {write{eviction, 3}, false},
		"after the last eviction":          {write{eviction, 3}, true},
	} {
		It(name, specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 2, 4)
			important := env.priorityClass(ctx)
			low := env.boundLow(ctx)
			env.killAt(at.write, at.after)
			group := env.importantGroup(ctx, "important", 3, important, nil)
			pods := env.importantMembers(ctx, "important", 3, important)
			restartKilled(ctx)

			Eventually(func(g Gomega) {
				for _, name := range env.evicted(ctx, low)(g) {
					admin.Remove(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}})
				}
				for _, pod := range pods {
					g.Expect(admin.NodeName(ctx, pod)(g)).NotTo(BeEmpty())
				}
			}).Should(Succeed())
			expectCondition(ctx, group, metav1.ConditionTrue, "Scheduled")
		})
	}
})
