package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/history"
)

// story makes a history, version by version. plant changes it at a point.
type story struct {
	Input
	now     time.Time
	profile *v1alpha1.SchedulingProfile
	// epoch is that of the leader, pending the number of pods that the last status counts.
	epoch, pending, bound int64
	nodes                 int64 // the revision of the newest node
	pods                  int64 // that of the newest pod with a node
	// target is the node of pod web-3.
	target string
	point  string
	plant  func(*story)
}

const step = 100 * time.Millisecond

// put adds a version of an object.
func (s *story) put(object client.Object) { s.change(object, false) }

// remove deletes an object.
func (s *story) remove(object client.Object) { s.change(object, true) }

func (s *story) change(object client.Object, deleted bool) {
	s.now = s.now.Add(step)
	s.History.Last += 10
	object = object.DeepCopyObject().(client.Object)
	object.SetResourceVersion(strconv.FormatInt(s.History.Last, 10))
	s.History.Changes = append(s.History.Changes, history.Change{Revision: s.History.Last, Seen: s.now, Object: object, Deleted: deleted, Size: 1000})
	switch o := object.(type) {
	case *corev1.Node:
		s.nodes = s.History.Last
	case *corev1.Pod:
		if o.Spec.NodeName != "" {
			s.pods = s.History.Last
		}
	}
}

// at lets the plant change the history at a point.
func (s *story) at(point string) {
	if s.point == point {
		s.plant(s)
	}
}

// versions are those of an object, such as "Pod shop/web-3".
func (s *story) versions(object string) (found []*history.Change) {
	for i := range s.History.Changes {
		if keyOf(s.History.Changes[i].Object).String() == object {
			found = append(found, &s.History.Changes[i])
		}
	}
	if len(found) == 0 {
		panic("no version of " + object)
	}
	return found
}

// edit changes all versions of an object.
func edit[T client.Object](s *story, object string, change func(T)) {
	for _, v := range s.versions(object) {
		change(v.Object.(T))
	}
}

// pod starts a pod that requests cpu.
func pod(name, cpu string) *fixture.PodBuilder {
	return fixture.Pod(name).SchedulerName("batch").Requests("cpu", cpu)
}

// bind binds a pod as Berth does.
func (s *story) bind(p *corev1.Pod, node string) {
	p.Spec.NodeName, p.Status.NominatedNodeName = node, ""
	record := map[string]any{
		"v": 1, "profile": "batch", "generation": s.profile.Status.Programmed.Generation, "hash": s.profile.Status.Programmed.Hash,
		"epoch": s.epoch, "node": node, "attempts": 1, "walk": map[string]any{"seq": 1, "nodes": s.nodes, "pods": s.pods},
	}
	text, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	p.Annotations = map[string]string{v1alpha1.AnnotationDecision: string(text)}
	p.Status.Conditions = nil
	s.put(p)
	s.bound++
	s.request("create", "pods/binding", p.Namespace, p.Name)
}

// redecide changes the annotation of a bound pod.
func redecide(s *story, object string, change func(map[string]any)) {
	edit(s, object, func(p *corev1.Pod) {
		if p.Spec.NodeName == "" {
			return
		}
		record := map[string]any{}
		if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationDecision]), &record); err != nil {
			panic(err)
		}
		change(record)
		text, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		p.Annotations[v1alpha1.AnnotationDecision] = string(text)
	})
}

// request adds a successful request of the manager to the audit log.
func (s *story) request(verb, resource, namespace, name string) *audit.Entry {
	var e audit.Entry
	e.Verb, e.RequestURI = verb, fmt.Sprintf("/%s/%s/%s", namespace, resource, name)
	e.ObjectRef.Resource, e.ObjectRef.Subresource, _ = strings.Cut(resource, "/")
	e.ObjectRef.Namespace, e.ObjectRef.Name = namespace, name
	e.User.Username, e.ResponseStatus.Code = "system:serviceaccount:berth-system:berth-manager", 200
	e.RequestReceivedTimestamp = s.now
	s.Audit = append(s.Audit, e)
	return &s.Audit[len(s.Audit)-1]
}

// lease writes the Lease.
func (s *story) lease(holder string, transitions int32) {
	now := metav1.NewMicroTime(s.now)
	s.put(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-manager", UID: "lease"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: &transitions, RenewTime: &now, LeaseDurationSeconds: new(int32(15)),
		},
	})
	s.request("update", "leases", "berth-system", "berth-manager")
}

// journal writes the journal of Bindings.
func (s *story) journal(fence string) {
	s.put(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-bindings"},
		Data:       map[string]string{"epoch": strconv.FormatInt(s.epoch, 10), "fence": fence},
	})
	s.request("update", "configmaps", "berth-system", "berth-bindings")
}

// run makes the newest spec of the profile run, as the given hash.
func (s *story) run(hash string) {
	p := s.profile
	p.Generation++
	s.put(p)
	spec := p.DeepCopy()
	spec.Status = v1alpha1.SchedulingProfileStatus{}
	spec.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
	data, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	s.put(&appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "batch-" + hash, UID: types.UID(hash), Labels: map[string]string{v1alpha1.LabelProfile: "batch"}},
		Data:       runtime.RawExtension{Raw: data}, Revision: p.Generation,
	})
	s.request("create", "controllerrevisions", "berth-system", "batch-"+hash)
	p.Status.ObservedGeneration = p.Generation
	p.Status.Programmed = &v1alpha1.ProgrammedProfile{Generation: p.Generation, Hash: hash, Revision: "batch-" + hash}
	p.Status.Conditions = nil
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: string(kind), Status: metav1.ConditionTrue, Reason: string(kind), ObservedGeneration: p.Generation,
		})
	}
	s.put(p)
	s.request("patch", "schedulingprofiles/status", "", "batch")
}

// count writes the counters of the profile's status.
func (s *story) count() {
	s.profile.Status.Queue = &v1alpha1.QueueStatus{Pending: s.pending}
	s.profile.Status.Totals = &v1alpha1.DecisionTotals{Since: new(metav1.NewTime(time.Unix(1000, 0))), Bound: s.bound}
	s.put(s.profile)
	s.request("patch", "schedulingprofiles/status", "", "batch")
}

// refuse gives a pod the condition of an unschedulable one.
func refuse(p *corev1.Pod, message string) {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	}}
}

// newStory returns a true history in which each invariant is checked, as plant changes it at a
// point: two leaders, a change of the profile, a preemption, a volume, a device, and a pod that
// waits.
func newStory(point string, plant func(*story)) *story {
	s := &story{
		Input: Input{Audited: true, Samples: map[string][]Sample{}}, now: time.Unix(2000, 0), target: "n1", point: point, plant: plant,
		profile: &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch", UID: "batch"}},
	}
	s.put(fixture.Node("n1").Capacity("cpu", "4", "memory", "8Gi", "pods", "3").Label("zone", "z1").Obj())
	s.put(fixture.Node("n2").Capacity("cpu", "4", "memory", "8Gi", "pods", "5").Label("zone", "z2").Obj())
	s.lease("a", 0)
	s.journal("done")
	s.run("h1")
	s.preempt()
	s.at("before the swap")
	s.run("h2")
	s.at("after the swap")
	s.epoch = 1
	s.lease("b", 1)
	s.journal("all")
	s.journal("done")
	s.at("before web-3")
	web := pod("shop/web-3", "1").Obj()
	s.put(web)
	s.at("web-3 waits")
	s.bind(web, s.target)
	s.pending++
	big := pod("shop/big-1", "100").Obj()
	s.put(big)
	refuse(big, "0/2 nodes are available: 2 Insufficient cpu.")
	s.put(big)
	s.put(explanation(big))
	s.request("create", "schedulingdecisions", "shop", "big-1")
	s.storage()
	s.profile.Status.RecentDecisions = []v1alpha1.RecentDecision{{Namespace: "shop", Pod: "web-3", Result: v1alpha1.ResultBound, Node: s.target, Generation: 2, Hash: "h2"}}
	s.at("before the status")
	s.count()
	for i := range 20 {
		s.Samples["a (1)"] = append(s.Samples["a (1)"], Sample{At: s.now, Goroutines: 100 + int64(i%3), Descriptors: 20, Heap: 50<<20 + int64(i%5)<<20})
	}
	s.Now = s.now.Add(5 * time.Second)
	s.at("end")
	s.History.Sort()
	return s
}

// explanation is the SchedulingDecision of an unschedulable pod.
func explanation(p *corev1.Pod) *v1alpha1.SchedulingDecision {
	return &v1alpha1.SchedulingDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID}}},
		Status: v1alpha1.SchedulingDecisionStatus{
			Result: v1alpha1.ResultUnschedulable, Profile: v1alpha1.DecidedBy{Name: "batch", Generation: 2, Hash: "h2"},
			Message:    "0/2 nodes are available: 2 Insufficient cpu.",
			Rejections: []v1alpha1.Rejection{{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 2}},
		},
	}
}

// preempt binds web-1 and web-2, and preempts web-1 for db-1.
func (s *story) preempt() {
	web1, web2 := pod("shop/web-1", "3").Priority(0).Obj(), pod("shop/web-2", "3").Obj()
	s.put(web1)
	s.bind(web1, "n1")
	s.put(web2)
	s.bind(web2, "n2")
	db := pod("shop/db-1", "2").Priority(100).Label("app", "db").Obj()
	s.put(db)
	refuse(db, "0/2 nodes are available: 2 Insufficient cpu.")
	db.Status.NominatedNodeName = "n1"
	s.put(db)
	victim(web1)
	s.put(web1)
	s.request("patch", "pods/status", "shop", "web-1")
	s.put(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1.1"}, ReportingController: "batch",
		Message: fmt.Sprintf("Preempted by pod %s on node n1", db.UID),
	})
	s.request("create", "events", "shop", "")
	s.remove(web1)
	s.request("delete", "pods", "shop", "web-1")
	s.bind(db, "n1")
}

// victim gives a pod the condition of a preempted one.
func victim(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message: "batch: preempting to accommodate a higher priority pod",
	}}
}

// storage adds a pod of another namespace and scheduler, one with a volume and one with a device.
func (s *story) storage() {
	s.put(fixture.Pod("other/secret-7").SchedulerName("else").Requests("cpu", "500m").On("n2").Obj())
	claim := fixture.Claim("shop/data", "local").BoundTo("v1").Mutate(func(c *corev1.PersistentVolumeClaim) {
		c.UID, c.Spec.AccessModes = "data", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}).Obj()
	s.put(fixture.Volume("v1", "local").BoundTo(claim).NodeAffinity(corev1.LabelHostname, "n2").Obj())
	s.put(claim)
	s.request("update", "persistentvolumes", "", "v1")
	s.request("update", "persistentvolumeclaims", "shop", "data")
	disk := pod("shop/disk-1", "100m").Claim("data").Obj()
	s.put(disk)
	s.bind(disk, "n2")
	gpu := pod("shop/gpu-1", "100m").ResourceClaim("gpu").Obj()
	s.put(gpu)
	s.put(fixture.ResourceClaim("shop/gpu").UID("gpu").Request("r", "c").Allocated("n2", "d/p/0").ReservedFor(gpu).Obj())
	s.request("update", "resourceclaims/status", "shop", "gpu")
	s.bind(gpu, "n2")
}

// found returns the violations as "I1 Pod shop/web-3", each once, sorted.
func found(r Report) (all []string) {
	for _, v := range r.Violations {
		all = append(all, fmt.Sprint(v.Invariant, " ", v.Object))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
