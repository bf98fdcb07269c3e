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

// clockOffset is how far the clock of the explanation queue is ahead, so that no spec waits
// for a minute.
var clockOffset atomic.Int64

func explanationTime() time.Time { return time.Now().Add(time.Duration(clockOffset.Load())) }

// These specs queue explanations of pods that no profile serves. Other specs show the
// explanations that the scheduling loop queues.
var _ = Describe("A pod that is explained", func() {
	It("has a SchedulingDecision of its name, which is deleted with it", minute, func(ctx SpecContext) {
		pod := createPod(ctx, foreignPod(newTestEnv(ctx), "web"))
		putExplanation(newExplanation(pod, "0/3 nodes are available: 3 Insufficient cpu."))
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

	It("has an update a minute later when the reasons change", minute, func(ctx SpecContext) {
		pod := createPod(ctx, foreignPod(newTestEnv(ctx), "web"))
		putExplanation(newExplanation(pod, "first"))
		first := expectDecision(ctx, pod)
		other := newExplanation(pod, "second")
		other.Status.Result = v1alpha1.ResultError
		putExplanation(other)
		advanceMinute(ctx)
		Eventually(getDecision(ctx, pod)).Should(HaveField("Status.Message", "second"))
		Expect(expectDecision(ctx, pod).UID).To(Equal(first.UID))
	})

	It("has an object within the limits of the schema, however long the explanation is", minute, func(ctx SpecContext) {
		pod := createPod(ctx, foreignPod(newTestEnv(ctx), "web"))
		e, long := newExplanation(pod, strings.Repeat("ü", 9000)), strings.Repeat("ü", 2000)
		e.Nodes = true
		e.Status.BlockedBy, e.Status.Profile.Name, e.Status.Profile.Hash = long, long, long
		e.Status.Queue = &v1alpha1.DecisionQueue{Where: "Gated", Gate: long}
		for range v1alpha1.MaxReasons {
			e.Status.Rejections = append(e.Status.Rejections, v1alpha1.Rejection{Plugin: long, Code: long, Reason: long, ExampleNode: long})
			e.Status.RequeueEvents = append(e.Status.RequeueEvents, v1alpha1.RequeueEvents{Plugin: long, Events: slices.Repeat([]string{long}, v1alpha1.MaxReasons)})
		}
		e.Status.ClosestNodes = slices.Repeat([]v1alpha1.ClosestNode{{Node: long}}, v1alpha1.MaxClosestNodes)
		e.Status.ClosestNodes[0].Missing = []v1alpha1.Missing{{Resource: long, Requested: long, Free: long, Plugin: long, Reason: long}}
		putExplanation(e)
		Expect(expectDecision(ctx, pod).Status.Rejections).To(HaveLen(v1alpha1.MaxReasons))
	})

	It("loses the object when it is bound", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		pod, node := createPod(ctx, foreignPod(env, "web")), createNode(ctx, env.node("n"))
		putExplanation(newExplanation(pod, "why"))
		expectDecision(ctx, pod)
		bindPod(ctx, pod, node)
		berth.Explanations().PodBound(pod.Namespace, pod.Name, pod.UID)
		expectNoDecision(ctx, pod)
	})

	It("does not get the explanation of an older pod of its name", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		old := createPod(ctx, foreignPod(env, "web-0"))
		putExplanation(newExplanation(old, "old"))
		first := expectDecision(ctx, old)
		admin.Remove(ctx, old)
		pod := createPod(ctx, foreignPod(env, "web-0"))
		putExplanation(newExplanation(pod, "new"))
		Eventually(getDecision(ctx, pod)).Should(HaveField("Status.Message", "new"))
		d := expectDecision(ctx, pod)
		Expect(ownerUIDs(d)).To(ConsistOf(pod.UID))
		Expect(d.UID).NotTo(Equal(first.UID), "the object's age is the time that the pod waits")
	})

	It("gets its explanation although the user created an object of its name", minute, func(ctx SpecContext) {
		pod := createPod(ctx, foreignPod(newTestEnv(ctx), "web"))
		Expect(admin.Create(ctx, &v1alpha1.SchedulingDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Status:     v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultUnschedulable, LastChange: metav1.Now()},
		})).To(Succeed())
		putExplanation(newExplanation(pod, "why"))
		Eventually(getDecision(ctx, pod)).Should(HaveField("Status.Message", "why"))
		Expect(ownerUIDs(expectDecision(ctx, pod))).To(ConsistOf(pod.UID))
	})

	It("keeps the object over a restart, and those of deleted and bound pods are deleted", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		node := createNode(ctx, env.node("n"))
		waiting, deleted, bound := createPod(ctx, foreignPod(env, "waiting")), createPod(ctx, foreignPod(env, "deleted")), createPod(ctx, foreignPod(env, "bound"))
		for _, pod := range []*v1.Pod{waiting, deleted, bound} {
			putExplanation(newExplanation(pod, "before"))
			expectDecision(ctx, pod)
		}
		stopManager()
		admin.Remove(ctx, deleted)
		bindPod(ctx, bound, node)

		berth = startManager(ctx)
		expectNoDecision(ctx, deleted)
		expectNoDecision(ctx, bound)
		first := expectDecision(ctx, waiting)
		putExplanation(newExplanation(waiting, "after"))
		advanceMinute(ctx)
		Eventually(getDecision(ctx, waiting)).Should(SatisfyAll(HaveField("Status.Message", "after"), HaveField("UID", first.UID)))
	})

	It("has an object that users who may view its namespace can read, without nodes", minute, func(ctx SpecContext) {
		here, otherEnv := newTestEnv(ctx), newTestEnv(ctx)
		tenant := decisionViewer(ctx, here)
		e := newExplanation(createPod(ctx, foreignPod(here, "web")), "why")
		e.Status.Rejections = []v1alpha1.Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: "Insufficient cpu", Nodes: 3, ExampleNode: "somebodys-node"}}
		e.Status.ClosestNodes = []v1alpha1.ClosestNode{{Node: "somebodys-node", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "3500m"}}}}
		putExplanation(e)
		var list v1alpha1.SchedulingDecisionList
		Eventually(func(g Gomega) {
			g.Expect(tenant.List(ctx, &list, client.InNamespace(here.namespace))).To(Succeed())
			g.Expect(list.Items).To(HaveLen(1))
		}).Should(Succeed())
		Expect(list.Items[0].Status.Rejections).To(HaveLen(1))
		Expect(list.Items[0].Status.ClosestNodes).To(HaveLen(1))
		Expect(kubectl(ctx, "get", "why", "--namespace", here.namespace, "--output=yaml")).NotTo(ContainSubstring("somebodys-node"))

		Expect(apierrors.IsForbidden(tenant.List(ctx, &list, client.InNamespace(otherEnv.namespace)))).To(BeTrue())
		Expect(apierrors.IsForbidden(tenant.Delete(ctx, &v1alpha1.SchedulingDecision{ObjectMeta: metav1.ObjectMeta{Namespace: here.namespace, Name: "web"}}))).To(BeTrue())
	})
})

// foreignPod starts a pod of another scheduler.
func foreignPod(env testEnv, name string) *fixture.PodBuilder {
	return fixture.Pod(env.namespace + "/" + name).SchedulerName("somebody-elses")
}

// newExplanation returns an explanation of the pod.
func newExplanation(pod *v1.Pod, message string) decision.Explanation {
	return decision.Explanation{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Status: v1alpha1.SchedulingDecisionStatus{
		Result: v1alpha1.ResultUnschedulable, Message: message, BlockedBy: "NodeResourcesFit 3",
		Profile: v1alpha1.DecidedBy{Name: "batch", Generation: 1, Hash: "9f3c1a2b4d"},
		Nodes:   &v1alpha1.DecisionNodes{Total: 3, Evaluated: 3, Summary: "0/3"},
		Queue:   &v1alpha1.DecisionQueue{Where: "Unschedulable"},
	}}
}

// getDecision returns a function that reads the SchedulingDecision of a pod.
func getDecision(ctx context.Context, pod *v1.Pod) func() (*v1alpha1.SchedulingDecision, error) {
	return func() (*v1alpha1.SchedulingDecision, error) {
		d := &v1alpha1.SchedulingDecision{}
		return d, admin.Get(ctx, client.ObjectKeyFromObject(pod), d)
	}
}

func expectDecision(ctx context.Context, pod *v1.Pod) *v1alpha1.SchedulingDecision {
	GinkgoHelper()
	var d *v1alpha1.SchedulingDecision
	Eventually(func() (err error) { d, err = getDecision(ctx, pod)(); return err }).Should(Succeed())
	return d
}

func expectNoDecision(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	Eventually(func() bool { _, err := getDecision(ctx, pod)(); return apierrors.IsNotFound(err) }).Should(BeTrue())
}

func ownerUIDs(d *v1alpha1.SchedulingDecision) (uids []any) {
	for _, owner := range d.OwnerReferences {
		uids = append(uids, owner.UID)
	}
	return uids
}

// advanceMinute moves the clock of the explanation queue by a minute.
func advanceMinute(ctx context.Context) {
	GinkgoHelper()
	// The writer writes one object at a time. When this object is there, all earlier ones
	// were written, and their minute has begun.
	last := createPod(ctx, foreignPod(newTestEnv(ctx), "last"))
	putExplanation(newExplanation(last, "the minute begins"))
	expectDecision(ctx, last)
	clockOffset.Add(int64(time.Minute))
	putExplanation(newExplanation(createPod(ctx, foreignPod(newTestEnv(ctx), "later")), "a minute is over"))
}

// putExplanation queues an explanation when Berth's informer has the pod.
func putExplanation(e decision.Explanation) {
	GinkgoHelper()
	pods := berth.Informers().Core().V1().Pods().Lister().Pods(e.Namespace)
	Eventually(func(g Gomega) {
		known, err := pods.Get(e.Pod)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known.UID).To(Equal(e.UID))
	}).Should(Succeed())
	berth.Explanations().Put(e)
}

// bindPod binds a pod as another scheduler.
func bindPod(ctx context.Context, pod *v1.Pod, node *v1.Node) {
	GinkgoHelper()
	Expect(cp.Client().CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: node.Name},
	}, metav1.CreateOptions{})).To(Succeed())
}

// decisionViewer returns the client of a user that has the role berth-decision-viewer-role
// in the namespace.
func decisionViewer(ctx context.Context, env testEnv) client.Client {
	GinkgoHelper()
	user := "tenant-of-" + env.namespace
	apitest.Created(ctx, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "berth-decision-viewer-role"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	cfg := cp.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	tenant, err := client.New(cfg, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return tenant
}

var _ = Describe("A pending pod", func() {
	It("has a SchedulingDecision that names no node, which users of its namespace can read", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("small").Capacity("cpu", "3500m"))
		createNode(ctx, env.node("tainted").Capacity("cpu", "8").Taint("team", "red", v1.TaintEffectNoSchedule))
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "4"))
		d := expectDecision(ctx, pod)
		Expect(d.Status.Profile.Name).To(Equal(p.Name))
		Expect(d.Status.ClosestNodes).To(ContainElement(v1alpha1.ClosestNode{Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "3500m"}}}))
		Expect(kubectl(ctx, "get", "why", "--namespace", pod.Namespace, pod.Name, "--output=wide")).To(SatisfyAll(
			MatchRegexp(`%s +Unschedulable +0/2 +NodeResourcesFit 1, TaintToleration 1`, p.Name),
			ContainSubstring("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."),
			Not(ContainSubstring(env.namespace+"-"))))

		createNode(ctx, env.node("large").Capacity("cpu", "4"))
		admin.ExpectBound(ctx, pod)
		expectNoDecision(ctx, pod)
	})
})

var _ = Describe("A change of decisions.explain", func() {
	It("deletes and creates the explanations of pending pods without an attempt", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		expectReady(ctx, p)
		pending := map[v1alpha1.DecisionResult]*v1.Pod{
			v1alpha1.ResultUnschedulable: createPod(ctx, env.pod(p, "refused").Requests("cpu", "2")),
			v1alpha1.ResultGated:         createPod(ctx, env.pod(p, "gated").SchedulingGate("example.com/quota")),
		}
		for result, pod := range pending {
			Eventually(getDecision(ctx, pod)).Should(HaveField("Status.Result", result))
		}
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Explain = v1alpha1.ExplainNone })
		for _, pod := range pending {
			expectNoDecision(ctx, pod)
		}
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Explain = v1alpha1.ExplainRefusals })
		for result, pod := range pending {
			Eventually(getDecision(ctx, pod)).Should(HaveField("Status.Result", result))
		}
	})
})

var _ = Describe("A cluster that does not serve SchedulingDecisions", func() {
	It("has its pods scheduled, and explained when it serves them", minutes, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		stopManager()
		_, err := kubectl(ctx, "delete", "crd", "schedulingdecisions.berth.dev")
		Expect(err).NotTo(HaveOccurred())
		installed := false
		install := func(ctx SpecContext) {
			if !installed {
				Expect(operator.Install(ctx, cp)).To(Succeed())
				installed = true
			}
		}
		DeferCleanup(install)
		pending := createPod(ctx, foreignPod(env, "pending"))
		Eventually(func() error { return admin.List(ctx, &v1alpha1.SchedulingDecisionList{}) }).ShouldNot(Succeed())
		berth = startManager(ctx)
		putExplanation(newExplanation(pending, "why"))
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "bound").Requests("cpu", "1")))

		install(ctx)
		Eventually(getDecision(ctx, pending)).Should(HaveField("Status.Message", "why"))
	})
})
