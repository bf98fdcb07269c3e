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

// lessPlugin is a QueueSort plugin that ignores priorities.
type lessPlugin struct {
	name string
	less fwk.LessFunc
}

var (
	sortByTime = lessPlugin{"ByAge", func(a, b fwk.QueuedEntityInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) }}
	sortByName = lessPlugin{"ByName", func(a, b fwk.QueuedEntityInfo) bool { return queuedPod(a).Name < queuedPod(b).Name }}
)

// queuedPod returns the pod of an entry, which the interface does not have.
func queuedPod(q fwk.QueuedEntityInfo) *v1.Pod { return q.(interface{ Pod() *v1.Pod }).Pod() }

func (s lessPlugin) new(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return s, nil
}

func (s lessPlugin) Name() string { return s.name }

func (s lessPlugin) Less(a, b fwk.QueuedEntityInfo) bool { return s.less(a, b) }

var _ = DescribeTable("Pods of rising priority are tried",
	func(ctx SpecContext, sort string, want ...string) {
		var mu sync.Mutex
		var order []string
		first.setFuncs(pluginFuncs{preFilter: func(pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, pod.Name)
			return nil, nil
		}})
		p := createProfile(ctx, disableAt(queueSortSet, "*"), enableAt(queueSortSet, sort), enableAt(preFilterSet, "First"))
		createNode(ctx, node("n"))
		release := stopLoop(ctx)
		var pods []*v1.Pod
		for _, class := range []string{"low", "middle", "high"} {
			pods = append(pods, createPod(ctx, p, podWithClass(class, class)))
			Eventually(queueCounts(p)).Should(HaveField("Active", len(pods)))
		}
		release()
		admin.ExpectBound(ctx, pods...)
		mu.Lock()
		defer mu.Unlock()
		Expect(order).To(Equal(want))
	},
	Entry("in the order of their creation by a sort plugin", minute, "ByAge", "low", "middle", "high"),
	Entry("by priority by the default sort plugin", minute, "PrioritySort", "high", "middle", "low"),
)

// bindingFuncs binds and sets an annotation.
func bindingFuncs(name string) pluginFuncs {
	return pluginFuncs{
		bind: func(ctx context.Context, h fwk.Handle, pod *v1.Pod, node string) *fwk.Status {
			callLog.Add("%s.Bind", name)
			meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{"bound-by": name}}
			return fwk.AsStatus(h.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx,
				&v1.Binding{ObjectMeta: meta, Target: v1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}))
		},
		postBind:  func(context.Context, fwk.Handle, *v1.Pod) { callLog.Add("%s.PostBind", name) },
		unreserve: func(*v1.Pod) { callLog.Add("%s.Unreserve", name) },
	}
}

var _ = DescribeTable("A pod with several Bind plugins is bound by the first that does not skip:",
	func(ctx SpecContext, one, other pluginFuncs, by string, calls []string) {
		first.setFuncs(one)
		second.setFuncs(other)
		p := createProfile(ctx, disableAt(bindSet, "DefaultBinder"), enableAt(bindSet, "First", "Second", "DefaultBinder"),
			enableAt(postBindSet, "First", "Second"), enableAt(reserveSet, "First", "Second"))
		createNode(ctx, node("n"))
		pods := createBound(ctx, p, pod("a"))
		Expect(pods[0].Annotations["bound-by"]).To(Equal(by))
		Eventually(callLog.Lines).Should(HaveExactElements(calls))
	},
	Entry("by DefaultBinder after two", minute, pluginFuncs{}, pluginFuncs{}, "", []string{}),
	Entry("by the second", minute, pluginFuncs{}, bindingFuncs("second"), "second", []string{"second.Bind", "second.PostBind"}),
	Entry("by the first", minute, bindingFuncs("first"), bindingFuncs("second"), "first", []string{"first.Bind", "first.PostBind", "second.PostBind"}),
)

var _ = Describe("A PreBind that fails", func() {
	It("once lets the pod be bound in the next attempt", minute, func(ctx SpecContext) {
		answer := once(fwk.NewStatus(fwk.Error, "broken"))
		first.setFuncs(pluginFuncs{preBind: func(context.Context, *v1.Pod) *fwk.Status { return answer() }})
		p := createProfile(ctx, enableAt(preBindSet, "First"), setBackoff(1))
		createNode(ctx, node("n"))
		pods := createBound(ctx, p, pod("a"))
		Eventually(attempts(p, pods[0])).Should(Equal(2))
	})

	It("requeues pods that may use the resources", minute, func(ctx SpecContext) {
		first.setFuncs(pluginFuncs{preBind: func(context.Context, *v1.Pod) *fwk.Status { return fwk.NewStatus(fwk.Error, "broken") }})
		second.setFuncs(pluginFuncs{
			filter: func(*v1.Pod) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no") },
			events: []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}}},
		})
		broken, other := createProfile(ctx, enableAt(preBindSet, "First"), setBackoff(1000)), createProfile(ctx, enableAt(filterSet, "Second"))
		createNode(ctx, node("n"))
		pending := createPod(ctx, other, pod("pending"))
		expectRefused(ctx, pending)
		Expect(attempts(other, pending)()).To(Equal(1))
		Eventually(admin.PodScheduled(ctx, createPod(ctx, broken, pod("a")))).Should(HavePrefix("False SchedulerError"))
		Eventually(attempts(other, pending)).Should(BeNumerically(">=", 2))
	})
})

var _ = Describe("A plugin that activates pods", func() {
	It("has them tried at once", minute, func(ctx SpecContext) {
		var mu sync.Mutex
		var driver atomic.Bool
		executors := map[string]*v1.Pod{}
		first.setFuncs(pluginFuncs{
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
		p := createProfile(ctx, enableAt(preFilterSet, "First"), enableAt(postBindSet, "First"))
		createNode(ctx, node("n"))
		var pods []*v1.Pod
		for _, name := range []string{"executor-1", "executor-2"} {
			pod := createPod(ctx, p, pod(name).Label("job", "executor"))
			pods = append(pods, pod)
			mu.Lock()
			executors[pod.Namespace+"/"+pod.Name] = pod
			mu.Unlock()
		}
		expectRefused(ctx, pods...)
		createBound(ctx, p, pod("driver").Label("job", "driver"))
		admin.ExpectBound(ctx, pods...)
	})
})

var _ = DescribeTable("A pod that PreEnqueue rejects",
	func(ctx SpecContext, events []fwk.ClusterEventWithHint, calls int, accepted bool) {
		first.setFuncs(pluginFuncs{events: events, preEnqueue: func(pod *v1.Pod) *fwk.Status {
			callLog.Add("First.PreEnqueue %s", pod.Name)
			if len(pod.Spec.SchedulingGates) > 0 {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "has a gate")
			}
			return nil
		}})
		p := createProfile(ctx, disableAt(preEnqueueSet, "*"), enableAt(preEnqueueSet, "First"))
		createNode(ctx, node("n"))
		rejected := createPod(ctx, p, pod("rejected").SchedulingGate("example.com/gate").RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")))
		Eventually(queueCounts(p)).Should(Equal(oneGated))
		Expect(countCalls("First.PreEnqueue rejected")).To(Equal(1))
		other := createBound(ctx, p, pod("other").Label("app", "web"))[0]
		apitest.Change(ctx, admin, other, func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "new", "annotation") })
		waitForQueue(ctx)
		Expect(queueCounts(p)()).To(Equal(oneGated))
		Expect(countCalls("First.PreEnqueue rejected")).To(Equal(calls))

		apitest.Change(ctx, admin, rejected, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		waitForQueue(ctx)
		if accepted {
			admin.ExpectBound(ctx, rejected)
			Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{}))
			return
		}
		Expect(queueCounts(p)()).To(Equal(oneGated))
		Expect(countCalls("First.PreEnqueue rejected")).To(Equal(calls))
	},
	Entry("stays gated when the plugin registers for no events", minute, []fwk.ClusterEventWithHint{}, 1, false),
	Entry("is checked at each registered event, and is bound when the plugin accepts it", minute,
		[]fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update}}}, 2, true),
)
