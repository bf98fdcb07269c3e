package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// env is what one run of a scenario has: a namespace, a profile and nodes. id is the name of
// the namespace and of the profile, and a part of the name of everything else.
type env struct {
	*Suite
	id string
	// profile is the name of the profile of the pods.
	profile string
	// hashes are those of the specs by which pods may be bound.
	hashes map[string]bool
	// checker records what happens from the beginning of the scenario on.
	checker *checker.Checker
	// terminated is the id of the process that the scenario ended with SIGTERM.
	terminated int
	// created are the objects that cleanup deletes, in this order.
	created []client.Object
}

func (s *Suite) newEnv(ctx context.Context) (*env, error) {
	s.cells++
	e := &env{Suite: s, id: fmt.Sprintf("cell%04dx", s.cells), hashes: map[string]bool{}}
	e.profile = e.id
	if err := e.startChecker(ctx); err != nil {
		return nil, err
	}
	if err := s.admin.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.id}}); err != nil {
		e.checker.Stop()
		return nil, err
	}
	return e, nil
}

// create creates objects as they are, with the status that they have, until cleanup.
func (e *env) create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		object.SetUID("")
		object.SetResourceVersion("")
		object.SetCreationTimestamp(metav1.Time{})
		given := object.DeepCopyObject().(client.Object)
		if err := e.admin.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
		e.created = append(e.created, object)
		claim, ok := given.(*resourceapi.ResourceClaim)
		if ok && claim.Status.Allocation != nil {
			claim.ResourceVersion, claim.UID = object.GetResourceVersion(), object.GetUID()
			if err := e.admin.Status().Update(ctx, claim); err != nil {
				return fmt.Errorf("writing the status of claim %s: %w", claim.Name, err)
			}
		}
	}
	return nil
}

// node starts a node with that many CPUs.
func (e *env) node(name string, cpus int) *fixture.NodeBuilder {
	full := e.id + "-" + name
	return fixture.Node(full).Label(v1.LabelHostname, full).Capacity("cpu", fmt.Sprint(cpus), "memory", "64Gi", "pods", "110")
}

// pod starts a pod that requests that many CPUs. It has no grace period, since no kubelet
// runs.
func (e *env) pod(name string, cpus int) *fixture.PodBuilder {
	b := fixture.Pod(e.id + "/" + name).SchedulerName(e.profile).Mutate(func(pod *v1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	})
	if cpus > 0 {
		b.Requests("cpu", fmt.Sprint(cpus))
	}
	return b
}

// createPods creates pods.
func (e *env) createPods(ctx context.Context, builders ...*fixture.PodBuilder) error {
	for _, b := range builders {
		if err := e.create(ctx, b.Valid()); err != nil {
			return err
		}
	}
	return nil
}

// spec returns a profile's spec: counters are published each second, and pods are requeued by
// events only.
func (e *env) spec(edits ...func(*v1alpha1.SchedulingProfileSpec)) v1alpha1.SchedulingProfileSpec {
	var spec v1alpha1.SchedulingProfileSpec
	spec.Decisions.PublishSeconds = new(int32(1))
	spec.Queue.FlushAfterSeconds = new(int32(0))
	for _, edit := range edits {
		edit(&spec)
	}
	return spec
}

// apply applies the profile.
func (e *env) apply(ctx context.Context, edits ...func(*v1alpha1.SchedulingProfileSpec)) error {
	return operator.ApplyProfile(ctx, e.cp, e.profile, e.spec(edits...))
}

// startProfile applies the profile, and waits until it runs.
func (e *env) startProfile(ctx context.Context, edits ...func(*v1alpha1.SchedulingProfileSpec)) error {
	if err := e.apply(ctx, edits...); err != nil {
		return err
	}
	return e.runs(ctx)
}

// runs waits until the profile runs as written, and allows binds by its hash.
func (e *env) runs(ctx context.Context) error {
	return until(ctx, "profile "+e.profile, func(ctx context.Context) error {
		p, err := operator.Profile(ctx, e.cp, e.profile)
		if err != nil {
			return err
		}
		for _, condition := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
			if err := expectCondition(p.Status.Conditions, p.Generation, condition, metav1.ConditionTrue); err != nil {
				return err
			}
		}
		e.hashes[p.Status.Programmed.Hash] = true
		return nil
	})
}

// expectCondition returns an error unless a condition has the status, for the generation.
func expectCondition(conditions []metav1.Condition, generation int64, condition v1alpha1.ConditionType, status metav1.ConditionStatus) error {
	c := meta.FindStatusCondition(conditions, string(condition))
	switch {
	case c == nil:
		return fmt.Errorf("there is no condition %s", condition)
	case c.Status != status || c.ObservedGeneration != generation:
		return fmt.Errorf("%s is %s for generation %d, want %s for %d: %s", condition, c.Status, c.ObservedGeneration, status, generation, c.Message)
	}
	return nil
}

// get reads an object of the namespace.
func (e *env) get(ctx context.Context, name string, into client.Object) error {
	return e.admin.Get(ctx, client.ObjectKey{Namespace: e.id, Name: name}, into)
}

// bound waits until pods have nodes.
func (e *env) bound(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := until(ctx, "the bind of "+name, func(ctx context.Context) error {
			var pod v1.Pod
			if err := e.get(ctx, name, &pod); err != nil || pod.Spec.NodeName != "" {
				return err
			}
			return fmt.Errorf("it has no node: %+v", pod.Status.Conditions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// refused waits until the condition PodScheduled of pods is False with this reason.
func (e *env) refused(ctx context.Context, reason string, names ...string) error {
	for _, name := range names {
		err := until(ctx, "the refusal of "+name, func(ctx context.Context) error {
			var pod v1.Pod
			if err := e.get(ctx, name, &pod); err != nil {
				return err
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("its conditions are %+v", pod.Status.Conditions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// decision is a part of a bound pod's annotation.
type decision struct {
	Profile, Node, Hash string
	Epoch               int64
}

func decisionOf(pod *v1.Pod) (d decision, err error) {
	text := pod.Annotations[v1alpha1.AnnotationDecision]
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("the annotation %s is %q: %w", v1alpha1.AnnotationDecision, text, err)
	}
	return d, nil
}

// boundByRunning waits until pods are bound by the hash that runs now.
func (e *env) boundByRunning(ctx context.Context, names ...string) error {
	if err := e.bound(ctx, names...); err != nil {
		return err
	}
	p, err := operator.Profile(ctx, e.cp, e.profile)
	if err != nil {
		return err
	}
	for _, name := range names {
		var pod v1.Pod
		if err := e.get(ctx, name, &pod); err != nil {
			return err
		}
		d, err := decisionOf(&pod)
		if err != nil || d.Hash != p.Status.Programmed.Hash {
			return errors.Join(err, fmt.Errorf("%s was bound by hash %s, and %s runs", name, d.Hash, p.Status.Programmed.Hash))
		}
	}
	return nil
}

// delete deletes an object without grace period, if it exists.
func (e *env) delete(ctx context.Context, object client.Object) error {
	return client.IgnoreNotFound(e.admin.Delete(ctx, object, client.GracePeriodSeconds(0)))
}

// completeDeletions does what a kubelet does: it deletes the pods that terminate. The API server
// marks a pod and deletes it by two writes, of which the second one is left out when the process
// that sent the request is killed in between.
func (e *env) completeDeletions(ctx context.Context) error {
	var pods v1.PodList
	if err := e.admin.List(ctx, &pods, client.InNamespace(e.id)); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			errs = append(errs, e.delete(ctx, &pods.Items[i]))
		}
	}
	return errors.Join(errs...)
}

// cleanup deletes what the scenario made, but its namespace, which no controller could empty.
func (e *env) cleanup(ctx context.Context) error {
	errs := []error{
		e.admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(e.id), client.GracePeriodSeconds(0)),
		e.releaseClaims(ctx),
		e.admin.DeleteAllOf(ctx, &v1.PersistentVolumeClaim{}, client.InNamespace(e.id)),
		e.admin.DeleteAllOf(ctx, &eventsv1.Event{}, client.InNamespace(e.id)), // each cell lists what there is
		e.admin.DeleteAllOf(ctx, &schedulingv1beta1.PodGroup{}, client.InNamespace(e.id)),
		e.delete(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: e.exportName()}}),
		e.delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: e.profile}}),
	}
	for _, object := range e.created {
		switch object.(type) {
		case *v1.Node, *v1.PersistentVolume, *storagev1.StorageClass, *resourceapi.ResourceSlice, *resourceapi.DeviceClass, *v1alpha1.PluginConfig:
			errs = append(errs, e.delete(ctx, object))
		}
	}
	err := until(ctx, "volumes and revisions", func(ctx context.Context) error {
		return errors.Join(e.deleteVolumes(ctx), e.deleteRevisions(ctx))
	})
	return errors.Join(append(errs, err)...)
}

// releaseClaims deletes the ResourceClaims of the namespace, with their finalizers.
func (e *env) releaseClaims(ctx context.Context) error {
	var claims resourceapi.ResourceClaimList
	if err := e.admin.List(ctx, &claims, client.InNamespace(e.id)); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		claim := &claims.Items[i]
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		errs = append(errs, client.IgnoreNotFound(e.admin.Patch(ctx, claim, free)), e.delete(ctx, claim))
	}
	return errors.Join(errs...)
}

// deleteVolumes deletes the volumes of the scenario, also those that a provisioner made.
func (e *env) deleteVolumes(ctx context.Context) error {
	var all v1.PersistentVolumeList
	if err := e.admin.List(ctx, &all); err != nil {
		return err
	}
	var errs []error
	for i := range all.Items {
		errs = append(errs, e.delete(ctx, &all.Items[i]))
	}
	return errors.Join(errs...)
}

// deleteRevisions deletes the revisions of the profile, which the manager would keep for a
// day.
func (e *env) deleteRevisions(ctx context.Context) error {
	revisions := e.cp.Client().AppsV1().ControllerRevisions(operator.Namespace)
	return revisions.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: v1alpha1.LabelProfile + "=" + e.profile})
}

// rawJSON returns a value as the arguments of a plugin.
func rawJSON(value any) *runtime.RawExtension {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // the suite's own constants
	}
	return &runtime.RawExtension{Raw: text}
}

// revisions returns the revisions of the profile.
func (e *env) revisions(ctx context.Context) ([]appsv1.ControllerRevision, error) {
	list, err := e.cp.Client().AppsV1().ControllerRevisions(operator.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelProfile + "=" + e.profile})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
