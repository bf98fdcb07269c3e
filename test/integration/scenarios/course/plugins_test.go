package course

import (
	"context"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// A sort knows no priorities.
type sort struct {
	name string
	less fwk.LessFunc
}

var (
	byAge  = sort{"ByAge", func(a, b fwk.QueuedEntityInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) }}
	byName = sort{"ByName", func(a, b fwk.QueuedEntityInfo) bool { return queuedPod(a).Name < queuedPod(b).Name }}
)

// queuedPod is the pod of an entry: the contract does not show it.
func queuedPod(q fwk.QueuedEntityInfo) *v1.Pod { return q.(interface{ Pod() *v1.Pod }).Pod() }

func (s sort) new(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return s, nil }

func (s sort) Name() string { return s.name }

func (s sort) Less(a, b fwk.QueuedEntityInfo) bool { return s.less(a, b) }

var _ = DescribeTable("Pods that came one after the other, each mattering more, are tried",
	func(ctx SpecContext, sort string, want ...string) {
		var mu sync.Mutex
		var order []string
		first.plays(role{preFilter: func(pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, pod.Name)
			return nil, nil
		}})
		p := aProfile(ctx, without(queueSorts, "*"), at(queueSorts, sort), at(preFilters, "First"))
		aNode(ctx, node("n"))
		release := stopLoop(ctx)
		var pods []*v1.Pod
		for _, class := range []string{"low", "middle", "high"} {
			pods = append(pods, aPod(ctx, p, ranked(class, class)))
			Eventually(waiting(p)).Should(HaveField("Active", len(pods)))
		}
		release()
		admin.ExpectBound(ctx, pods...)
		mu.Lock()
		defer mu.Unlock()
		Expect(order).To(Equal(want))
	},
	Entry("as they came, by a sort that says so", minute, "ByAge", "low", "middle", "high"),
	Entry("the most important first, by the default one", minute, "PrioritySort", "high", "middle", "low"),
)

// binding really binds, and says so in an annotation.
func binding(name string) role {
	return role{
		bind: func(ctx context.Context, h fwk.Handle, pod *v1.Pod, node string) *fwk.Status {
			journal.Add("%s.Bind", name)
			meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{"bound-by": name}}
			return fwk.AsStatus(h.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx,
				&v1.Binding{ObjectMeta: meta, Target: v1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}))
		},
		postBind:  func(context.Context, fwk.Handle, *v1.Pod) { journal.Add("%s.PostBind", name) },
		unreserve: func(*v1.Pod) { journal.Add("%s.Unreserve", name) },
	}
}

var _ = DescribeTable("A pod with several binders is bound by the first that does not pass it on:",
	func(ctx SpecContext, one, other role, by string, calls []string) {
		first.plays(one)
		second.plays(other)
		p := aProfile(ctx, without(binds, "DefaultBinder"), at(binds, "First", "Second", "DefaultBinder"),
			at(postBinds, "First", "Second"), at(reserves, "First", "Second"))
		aNode(ctx, node("n"))
		pods := bound(ctx, p, pod("a"))
		Expect(pods[0].Annotations["bound-by"]).To(Equal(by))
		Eventually(journal.Lines).Should(HaveExactElements(calls))
	},
	Entry("the default one behind two that do", minute, role{}, role{}, "", []string{}),
	Entry("the second", minute, role{}, binding("second"), "second", []string{"second.Bind", "second.PostBind"}),
	Entry("the first", minute, binding("first"), binding("second"), "first", []string{"first.Bind", "first.PostBind", "second.PostBind"}),
)

var _ = Describe("PreBind that fails", func() {
	It("the first time only lets the pod be bound the next time", minute, func(ctx SpecContext) {
		answer := once(fwk.NewStatus(fwk.Error, "broken"))
		first.plays(role{preBind: func(context.Context, *v1.Pod) *fwk.Status { return answer() }})
		p := aProfile(ctx, at(preBinds, "First"), backingOff(1))
		aNode(ctx, node("n"))
		pods := bound(ctx, p, pod("a"))
		Eventually(attempts(p, pods[0])).Should(Equal(2))
	})

	It("wakes those who may take the room that was assumed", minute, func(ctx SpecContext) {
		first.plays(role{preBind: func(context.Context, *v1.Pod) *fwk.Status { return fwk.NewStatus(fwk.Error, "broken") }})
		second.plays(role{
			filter: func(*v1.Pod) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no") },
			events: []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}}},
		})
		broken, other := aProfile(ctx, at(preBinds, "First"), backingOff(1000)), aProfile(ctx, at(filters, "Second"))
		aNode(ctx, node("n"))
		sleeper := aPod(ctx, other, pod("sleeper"))
		expectRefused(ctx, sleeper)
		Expect(attempts(other, sleeper)()).To(Equal(1))
		Eventually(admin.Standing(ctx, aPod(ctx, broken, pod("a")))).Should(HavePrefix("False SchedulerError"))
		Eventually(attempts(other, sleeper)).Should(BeNumerically(">=", 2))
	})
})

var _ = Describe("A plugin that activates pods", func() {
	It("has those tried at once that nothing else would wake", minute, func(ctx SpecContext) {
		var mu sync.Mutex
		var driver atomic.Bool
		executors := map[string]*v1.Pod{}
		first.plays(role{
			preFilter: func(pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				if pod.Labels["job"] == "executor" && !driver.Load() {
					return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no driver yet")
				}
				return nil, nil
			},
			postBind: func(ctx context.Context, h fwk.Handle, pod *v1.Pod) {
				if pod.Labels["job"] != "driver" {
					return
				}
				driver.Store(true)
				mu.Lock()
				defer mu.Unlock()
				h.Activate(klog.FromContext(ctx), executors)
			},
		})
		p := aProfile(ctx, at(preFilters, "First"), at(postBinds, "First"))
		aNode(ctx, node("n"))
		var pods []*v1.Pod
		for _, name := range []string{"executor-1", "executor-2"} {
			pod := aPod(ctx, p, pod(name).Label("job", "executor"))
			pods = append(pods, pod)
			mu.Lock()
			executors[pod.Namespace+"/"+pod.Name] = pod
			mu.Unlock()
		}
		expectRefused(ctx, pods...)
		bound(ctx, p, pod("driver").Label("job", "driver"))
		admin.ExpectBound(ctx, pods...)
	})
})

var _ = DescribeTable("A pod that PreEnqueue keeps out",
	func(ctx SpecContext, events []fwk.ClusterEventWithHint, asked int, letIn bool) {
		first.plays(role{events: events, preEnqueue: func(pod *v1.Pod) *fwk.Status {
			journal.Add("First.PreEnqueue %s", pod.Name)
			if len(pod.Spec.SchedulingGates) > 0 {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "has a gate")
			}
			return nil
		}})
		p := aProfile(ctx, without(preEnqueues, "*"), at(preEnqueues, "First"))
		aNode(ctx, node("n"))
		kept := aPod(ctx, p, pod("kept").SchedulingGate("example.com/gate").RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")))
		Eventually(waiting(p)).Should(Equal(held))
		Expect(count("First.PreEnqueue kept")).To(Equal(1))
		other := bound(ctx, p, pod("other").Label("app", "web"))[0]
		apitest.Change(ctx, admin, other, func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "new", "annotation") })
		ring(ctx)
		Expect(waiting(p)()).To(Equal(held))
		Expect(count("First.PreEnqueue kept")).To(Equal(asked))

		apitest.Change(ctx, admin, kept, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		ring(ctx)
		if letIn {
			admin.ExpectBound(ctx, kept)
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{}))
			return
		}
		Expect(waiting(p)()).To(Equal(held))
		Expect(count("First.PreEnqueue kept")).To(Equal(asked))
	},
	Entry("stays out for good when the plugin registered for nothing", minute, []fwk.ClusterEventWithHint{}, 1, false),
	Entry("is asked about at each event that the plugin registered for, and let in when it says so", minute,
		[]fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update}}}, 2, true),
)
