package try

import (
	"cmp"
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// replicasField has the number of pods of most workloads.
const replicasField = "spec.replicas"

// subject is what is tried: a number of pods like one.
type subject struct {
	// title is kind, namespace and name.
	title string
	pod   *v1.Pod
	count int
	// countField is the field of the object with the count; empty for one without.
	countField string
	// firstOrdinal is the number in the name of the first pod.
	firstOrdinal int
	// claimTemplates are the templates of the claims that each pod has.
	claimTemplates []v1.PersistentVolumeClaim
	// controller is the object that creates the pods; nil for a Pod.
	controller metav1.Object
	kind       string
	// replaced is the pending pod of the cluster that the pod replaces; nil for none.
	replaced *v1.Pod
	// devices are the objects about devices in the files.
	devices []state.Object
	// podGroups are the PodGroups in the files.
	podGroups []*schedulingv1beta1.PodGroup
	notes     []string
}

// readSubject reads the one Pod, or workload, in the files.
func (o *options) readSubject() (*subject, error) {
	documents, err := manifest.ReadAny("-f", o.files, o.In)
	if err != nil {
		return nil, err
	}
	var found *subject
	var others []string
	var devices []state.Object
	var podGroups []*schedulingv1beta1.PodGroup
	for _, d := range documents {
		group, err := podGroupOf(d)
		if err != nil {
			return nil, fmt.Errorf("-f: %s: %w", d.Source, err)
		}
		if group != nil {
			podGroups = append(podGroups, group)
			continue
		}
		device, err := deviceObjectOf(d)
		if err != nil {
			return nil, fmt.Errorf("-f: %s: %w", d.Source, err)
		}
		if device != nil {
			devices = append(devices, device)
			continue
		}
		s, err := subjectOf(d)
		switch {
		case err != nil:
			return nil, fmt.Errorf("-f: %s: %w", d.Source, err)
		case s == nil:
			others = append(others, fmt.Sprintf("%s: %s/%s ignored: only pods and workloads are tried", d.Source, d.Object.GetKind(), d.Object.GetName()))
			continue
		case found != nil:
			return nil, fmt.Errorf("-f: %s: %s follows %s: only one of them can be tried at a time", d.Source, s.title, found.title)
		}
		found = s
	}
	if found == nil {
		return nil, fmt.Errorf("-f: no Pod and no workload in %d documents", len(documents))
	}
	found.notes, found.devices, found.podGroups = append(found.notes, others...), devices, podGroups
	found.pod.Namespace = cmp.Or(found.pod.Namespace, o.cluster.Namespace)
	if o.cluster.NamespaceGiven && found.pod.Namespace != o.cluster.Namespace {
		return nil, fmt.Errorf("metadata.namespace: %s is in namespace %s, but -n is %s", found.title, found.pod.Namespace, o.cluster.Namespace)
	}
	switch {
	case o.replicas > 0:
		found.count = o.replicas
	case found.count > maxReplicas:
		return nil, fmt.Errorf("%s: %s: Invalid value: %d: must be at most %d, unless --replicas is set", found.title, found.countField, found.count, maxReplicas)
	case found.count == 0:
		return nil, fmt.Errorf("%s has 0 replicas: set --replicas", found.title)
	}
	found.title = found.kind + " " + found.pod.Namespace + "/" + found.pod.Name
	return found, nil
}

// subjectOf reads a document; nil if its kind creates no pods.
func subjectOf(d manifest.Document) (*subject, error) {
	gvk := d.Object.GroupVersionKind()
	if !cluster.Scheme().Recognizes(gvk) {
		return nil, nil
	}
	typed, err := cluster.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	s, err := &subject{kind: gvk.Kind, count: 1}, error(nil)
	read := func() bool {
		err = manifest.Decode(d.Object, typed)
		return err == nil
	}
	switch o := typed.(type) {
	case *v1.Pod:
		if read() {
			s.pod, s.controller = o, nil
		}
	case *v1.PodTemplate:
		if read() {
			s.fromTemplate(nil, o, o.Template)
		}
	case *v1.ReplicationController:
		if read() {
			s.fromTemplate(o, o, ptr.Deref(o.Spec.Template, v1.PodTemplateSpec{}))
			err = s.setCount(replicasField, o.Spec.Replicas)
		}
	case *appsv1.ReplicaSet:
		if read() {
			s.fromTemplate(o, o, o.Spec.Template)
			err = s.setCount(replicasField, o.Spec.Replicas)
		}
	case *appsv1.Deployment:
		if read() {
			s.fromTemplate(o, o, o.Spec.Template)
			err = s.setCount(replicasField, o.Spec.Replicas)
		}
	case *appsv1.StatefulSet:
		if read() {
			s.fromTemplate(o, o, o.Spec.Template)
			err = s.setCount(replicasField, o.Spec.Replicas)
			s.fromStatefulSet(o)
		}
	case *batchv1.Job:
		if read() {
			s.fromTemplate(o, o, o.Spec.Template)
			err = s.fromJob("spec.", &o.Spec)
		}
	case *batchv1.CronJob:
		if read() {
			s.fromTemplate(o, o, o.Spec.JobTemplate.Spec.Template)
			err = s.fromJob("spec.jobTemplate.spec.", &o.Spec.JobTemplate.Spec)
		}
	case *appsv1.DaemonSet:
		return nil, fmt.Errorf("kind: DaemonSet is not supported, since each of its pods is for one node: try a Pod with the affinity to that node")
	default:
		return nil, nil
	}
	return s.validate(err)
}

func (s *subject) validate(err error) (*subject, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.kind, err)
	}
	s.title = s.kind + "/" + s.pod.Name
	switch spec := &s.pod.Spec; {
	case s.pod.Name == "" && s.pod.GenerateName == "":
		return nil, fmt.Errorf("%s: metadata.name: Required value", s.kind)
	case len(spec.Containers) == 0:
		return nil, fmt.Errorf("%s: spec.containers: Required value", s.title)
	case spec.NodeName != "":
		return nil, fmt.Errorf("%s: spec.nodeName: Invalid value: %q: must be empty, since a pod with a node is not scheduled", s.title, spec.NodeName)
	}
	s.pod.Name = cmp.Or(s.pod.Name, s.pod.GenerateName+"0")
	return s, nil
}

// fromTemplate takes the pod from a template.
func (s *subject) fromTemplate(maker, named metav1.Object, template v1.PodTemplateSpec) {
	s.pod = &v1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	s.pod.Name, s.pod.Namespace = named.GetName(), named.GetNamespace()
	s.controller = maker
}

// setCount sets the number of pods, which a field of the object has.
func (s *subject) setCount(field string, count *int32) error {
	s.count, s.countField = int(ptr.Deref(count, 1)), field
	if s.count < 0 {
		return fmt.Errorf("%s: Invalid value: %d: must be greater than or equal to 0", field, s.count)
	}
	return nil
}

// fromJob sets how many pods a Job has at first: its controller creates no more than those
// that have yet to complete. path is what precedes the names of its fields.
func (s *subject) fromJob(path string, spec *batchv1.JobSpec) error {
	most := math.MaxInt
	if spec.Completions != nil {
		if err := s.setCount(path+"completions", spec.Completions); err != nil {
			return err
		}
		most = s.count
	}
	if err := s.setCount(path+"parallelism", spec.Parallelism); err != nil {
		return err
	}
	s.count = min(s.count, most)
	return nil
}

// pods returns the pods to try, in order.
func (s *subject) pods() []*v1.Pod {
	pods := make([]*v1.Pod, s.count)
	for i := range pods {
		pod := s.pod.DeepCopy()
		if s.count > 1 || s.controller != nil {
			pod.Name = fmt.Sprintf("%s-%d", s.pod.Name, s.firstOrdinal+i)
			pod.UID = ""
			s.useOwnClaims(pod)
		}
		if pod.UID == "" {
			pod.UID = types.UID("try/" + pod.Namespace + "/" + pod.Name)
		}
		nameDeviceClaims(pod)
		pods[i] = pod
	}
	return pods
}
