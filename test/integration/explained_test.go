package integration

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// ahead is how far the desks of this suite are ahead of the time: nobody waits
// a minute for what is to happen a minute later.
var ahead atomic.Int64

func deskTime() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }

// These specs put explanations on the desk themselves, of pods that no profile
// looks at: what the loop has to say of its own pods is told elsewhere.
var _ = Describe("A pod that is explained", func() {
	It("has a SchedulingDecision of its name, which goes with it", minute, func(ctx SpecContext) {
		pod := aPod(ctx, strangersPod(aYard(ctx), "web"))
		explain(why(pod, "0/3 nodes are available: 3 Insufficient cpu."))
		d := expectDecision(ctx, pod)
		Expect(d.Status.Message).To(Equal("0/3 nodes are available: 3 Insufficient cpu."))
		Expect(d.OwnerReferences).To(ConsistOf(SatisfyAll(HaveField("Kind", "Pod"), HaveField("UID", pod.UID), HaveField("BlockOwnerDeletion", BeNil()))))
		Expect(kubectl(ctx, "get", "why", "--namespace", pod.Namespace, pod.Name)).To(SatisfyAll(
			MatchRegexp(`PROFILE +RESULT +FITS +BLOCKED-BY +AGE`),
			MatchRegexp(`batch +Unschedulable +0/3 +NodeResourcesFit 3`)))
		Expect(kubectl(ctx, "get", "sdec", "--namespace", pod.Namespace, "--field-selector=status.result=Unschedulable", "--output=wide")).To(ContainSubstring("Insufficient cpu"))

		admin.Remove(ctx, pod)
		berth.Explanations().PodDeleted(pod.Namespace, pod.Name, pod.UID)
		expectNoDecision(ctx, pod)
	})

	It("is told other reasons a minute later", minute, func(ctx SpecContext) {
		pod := aPod(ctx, strangersPod(aYard(ctx), "web"))
		explain(why(pod, "first"))
		first := expectDecision(ctx, pod)
		other := why(pod, "second")
		other.Status.Result = v1alpha1.ResultError
		explain(other)
		aMinuteLater(ctx)
		Eventually(decisionOf(ctx, pod)).Should(HaveField("Status.Message", "second"))
		Expect(expectDecision(ctx, pod).UID).To(Equal(first.UID))
	})

	It("is explained within the bounds of the schema, however much there is to say", minute, func(ctx SpecContext) {
		pod := aPod(ctx, strangersPod(aYard(ctx), "web"))
		e, long := why(pod, strings.Repeat("ü", 9000)), strings.Repeat("ü", 2000)
		e.Nodes = true
		e.Status.BlockedBy, e.Status.Profile.Name, e.Status.Profile.Hash = long, long, long
		e.Status.Queue = &v1alpha1.DecisionQueue{Where: "Gated", Gate: long}
		for range v1alpha1.MaxReasons {
			e.Status.Rejections = append(e.Status.Rejections, v1alpha1.Rejection{Plugin: long, Code: long, Reason: long, ExampleNode: long})
			e.Status.RequeueEvents = append(e.Status.RequeueEvents, v1alpha1.RequeueEvents{Plugin: long, Events: slices.Repeat([]string{long}, v1alpha1.MaxReasons)})
		}
		e.Status.ClosestNodes = slices.Repeat([]v1alpha1.ClosestNode{{Node: long}}, v1alpha1.MaxClosestNodes)
		e.Status.ClosestNodes[0].Missing = []v1alpha1.Missing{{Resource: long, Requested: long, Free: long, Plugin: long, Reason: long}}
		explain(e)
		Expect(expectDecision(ctx, pod).Status.Rejections).To(HaveLen(v1alpha1.MaxReasons))
	})

	It("has no explanation any more when it is bound", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		pod, node := aPod(ctx, strangersPod(y, "web")), aNode(ctx, y.node("n"))
		explain(why(pod, "why"))
		expectDecision(ctx, pod)
		bindTo(ctx, pod, node)
		berth.Explanations().PodBound(pod.Namespace, pod.Name, pod.UID)
		expectNoDecision(ctx, pod)
	})

	It("is not told what was true of another of its name", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		old := aPod(ctx, strangersPod(y, "web-0"))
		explain(why(old, "old"))
		first := expectDecision(ctx, old)
		admin.Remove(ctx, old)
		pod := aPod(ctx, strangersPod(y, "web-0"))
		explain(why(pod, "new"))
		Eventually(decisionOf(ctx, pod)).Should(HaveField("Status.Message", "new"))
		d := expectDecision(ctx, pod)
		Expect(ownersOf(d)).To(ConsistOf(pod.UID))
		Expect(d.UID).NotTo(Equal(first.UID), "its age is that of the wait")
	})

	It("has its explanation where somebody else's object is in the way", minute, func(ctx SpecContext) {
		pod := aPod(ctx, strangersPod(aYard(ctx), "web"))
		Expect(admin.Create(ctx, &v1alpha1.SchedulingDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Status:     v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultUnschedulable, LastChange: metav1.Now()},
		})).To(Succeed())
		explain(why(pod, "why"))
		Eventually(decisionOf(ctx, pod)).Should(HaveField("Status.Message", "why"))
		Expect(ownersOf(expectDecision(ctx, pod))).To(ConsistOf(pod.UID))
	})

	It("keeps its explanation over a restart, and those of pods that are gone or bound go", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		node := aNode(ctx, y.node("n"))
		waiting, gone, bound := aPod(ctx, strangersPod(y, "waiting")), aPod(ctx, strangersPod(y, "gone")), aPod(ctx, strangersPod(y, "bound"))
		for _, pod := range []*v1.Pod{waiting, gone, bound} {
			explain(why(pod, "before"))
			expectDecision(ctx, pod)
		}
		stopManager()
		admin.Remove(ctx, gone)
		bindTo(ctx, bound, node)

		berth = startManager(ctx)
		expectNoDecision(ctx, gone)
		expectNoDecision(ctx, bound)
		first := expectDecision(ctx, waiting)
		explain(why(waiting, "after"))
		aMinuteLater(ctx)
		Eventually(decisionOf(ctx, waiting)).Should(SatisfyAll(HaveField("Status.Message", "after"), HaveField("UID", first.UID)))
	})

	It("tells those who may view its namespace, and them no node", minute, func(ctx SpecContext) {
		here, there := aYard(ctx), aYard(ctx)
		tenant := viewerOf(ctx, here)
		e := why(aPod(ctx, strangersPod(here, "web")), "why")
		e.Status.Rejections = []v1alpha1.Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: "Insufficient cpu", Nodes: 3, ExampleNode: "somebodys-node"}}
		e.Status.ClosestNodes = []v1alpha1.ClosestNode{{Node: "somebodys-node", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "3500m"}}}}
		explain(e)
		var list v1alpha1.SchedulingDecisionList
		Eventually(func(g Gomega) {
			g.Expect(tenant.List(ctx, &list, client.InNamespace(here.name))).To(Succeed())
			g.Expect(list.Items).To(HaveLen(1))
		}).Should(Succeed())
		Expect(list.Items[0].Status.Rejections).To(HaveLen(1))
		Expect(list.Items[0].Status.ClosestNodes).To(HaveLen(1))
		Expect(kubectl(ctx, "get", "why", "--namespace", here.name, "--output=yaml")).NotTo(ContainSubstring("somebodys-node"))

		Expect(apierrors.IsForbidden(tenant.List(ctx, &list, client.InNamespace(there.name)))).To(BeTrue())
		Expect(apierrors.IsForbidden(tenant.Delete(ctx, &v1alpha1.SchedulingDecision{ObjectMeta: metav1.ObjectMeta{Namespace: here.name, Name: "web"}}))).To(BeTrue())
	})
})

// strangersPod starts a pod that no profile looks at.
func strangersPod(y yard, name string) *fixture.PodBuilder {
	return fixture.Pod(y.name + "/" + name).SchedulerName("somebody-elses")
}

// why is an explanation of pod.
func why(pod *v1.Pod, message string) decision.Explanation {
	return decision.Explanation{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Status: v1alpha1.SchedulingDecisionStatus{
		Result: v1alpha1.ResultUnschedulable, Message: message, BlockedBy: "NodeResourcesFit 3",
		Profile: v1alpha1.DecidedBy{Name: "batch", Generation: 1, Hash: "9f3c1a2b4d"},
		Nodes:   &v1alpha1.DecisionNodes{Total: 3, Evaluated: 3, Summary: "0/3"},
		Queue:   &v1alpha1.DecisionQueue{Where: "Unschedulable"},
	}}
}

// decisionOf reads the SchedulingDecision of a pod.
func decisionOf(ctx context.Context, pod *v1.Pod) func() (*v1alpha1.SchedulingDecision, error) {
	return func() (*v1alpha1.SchedulingDecision, error) {
		d := &v1alpha1.SchedulingDecision{}
		return d, admin.Get(ctx, client.ObjectKeyFromObject(pod), d)
	}
}

func expectDecision(ctx context.Context, pod *v1.Pod) *v1alpha1.SchedulingDecision {
	GinkgoHelper()
	var d *v1alpha1.SchedulingDecision
	Eventually(func() (err error) { d, err = decisionOf(ctx, pod)(); return err }).Should(Succeed())
	return d
}

func expectNoDecision(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	Eventually(func() bool { _, err := decisionOf(ctx, pod)(); return apierrors.IsNotFound(err) }).Should(BeTrue())
}

func ownersOf(d *v1alpha1.SchedulingDecision) (uids []any) {
	for _, owner := range d.OwnerReferences {
		uids = append(uids, owner.UID)
	}
	return uids
}

// aMinuteLater has a minute pass for the desk, and tells it so.
func aMinuteLater(ctx context.Context) {
	GinkgoHelper()
	// One thing is written at a time: what was seen to be written before is known
	// to be when this is, and its minute began.
	last := aPod(ctx, strangersPod(aYard(ctx), "last"))
	explain(why(last, "the minute begins"))
	expectDecision(ctx, last)
	ahead.Add(int64(time.Minute))
	explain(why(aPod(ctx, strangersPod(aYard(ctx), "bell")), "a minute is over"))
}

// explain puts an explanation on the desk, as soon as Berth knows the pod.
func explain(e decision.Explanation) {
	GinkgoHelper()
	pods := berth.Informers().Core().V1().Pods().Lister().Pods(e.Namespace)
	Eventually(func(g Gomega) {
		known, err := pods.Get(e.Pod)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known.UID).To(Equal(e.UID))
	}).Should(Succeed())
	berth.Explanations().Put(e)
}

// bindTo binds a pod as some scheduler would.
func bindTo(ctx context.Context, pod *v1.Pod, node *v1.Node) {
	GinkgoHelper()
	Expect(cp.Client().CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: node.Name},
	}, metav1.CreateOptions{})).To(Succeed())
}

// viewerOf is somebody who may see why the pods of a yard wait, and nothing
// else.
func viewerOf(ctx context.Context, y yard) client.Client {
	GinkgoHelper()
	who := "tenant-of-" + y.name
	apitest.Created(ctx, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.name, Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "berth-decision-viewer-role"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who}},
	})
	cfg := cp.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: who}
	tenant, err := client.New(cfg, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return tenant
}
