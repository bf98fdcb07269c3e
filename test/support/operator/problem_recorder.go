package operator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
)

// ProblemRecorder records all that users can read about a problem: conditions of profiles and pods,
// Events, metrics. It expects that every profile runs and every pod is scheduled. It is safe
// for concurrent use.
type ProblemRecorder struct {
	mu    sync.Mutex
	notes []string
}

// WatchProblems watches until ctx ends. The initial state is not recorded until it changes. A watch
// that breaks, since the API server stops, is started again.
func WatchProblems(ctx context.Context, cp *controlplane.ControlPlane) (*ProblemRecorder, error) {
	w := &ProblemRecorder{}
	client, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		return nil, err
	}
	profiles := client.Resource(v1alpha1.GroupVersion.WithResource("schedulingprofiles"))
	rest := cp.Client().CoreV1().RESTClient()
	var synced []cache.InformerSynced
	for _, kind := range []struct {
		example runtime.Object
		source  *cache.ListWatch
		note    func(any) string
	}{
		{&unstructured.Unstructured{}, &cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return profiles.List(ctx, o) },
			WatchFuncWithContext: profiles.Watch,
		}, profileNote},
		{&corev1.Pod{}, cache.NewListWatchFromClient(rest, "pods", metav1.NamespaceAll, fields.Everything()), podNote},
		{&corev1.Event{}, cache.NewListWatchFromClient(rest, "events", metav1.NamespaceAll, fields.Everything()), eventNote},
	} {
		informer := cache.NewSharedInformer(kind.source, kind.example, 0)
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, earlier bool) {
				if !earlier {
					w.add(kind.note(object))
				}
			},
			UpdateFunc: func(before, now any) {
				if changed(before, now) {
					w.add(kind.note(now))
				}
			},
		}); err != nil {
			return nil, err
		}
		go informer.RunWithContext(ctx)
		synced = append(synced, informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("watching profiles, pods and Events: %w", context.Cause(ctx))
	}
	return w, nil
}

// changed says whether two versions of an object differ. After a watch broke, an informer
// lists again and delivers unchanged objects as updates.
func changed(before, now any) bool {
	a, errA := meta.Accessor(before)
	b, errB := meta.Accessor(now)
	return errA != nil || errB != nil || a.GetResourceVersion() != b.GetResourceVersion()
}

// Problems returns what was recorded, each text once.
func (w *ProblemRecorder) Problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes)
}

func (w *ProblemRecorder) add(notes ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, note := range notes {
		if note != "" && !slices.Contains(w.notes, note) {
			w.notes = append(w.notes, note)
		}
	}
}

// profileNote returns a condition of a profile that must be True and is not.
func profileNote(object any) string {
	var p v1alpha1.SchedulingProfile
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, &p); err != nil {
		return err.Error()
	}
	for _, c := range p.Status.Conditions {
		if slices.Contains(mustBeTrue, c.Type) && c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("profile %s: %s=%s %s: %s", p.Name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

var mustBeTrue = []string{
	string(v1alpha1.ConditionAccepted), string(v1alpha1.ConditionResolvedRefs), string(v1alpha1.ConditionProgrammed), string(v1alpha1.ConditionReady),
}

// podNote returns the condition of a pod that says that an attempt failed.
func podNote(object any) string {
	pod := object.(*corev1.Pod)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && pod.Namespace != Namespace {
			return fmt.Sprintf("pod %s: %s: %s", pod.Name, c.Reason, c.Message)
		}
	}
	return ""
}

// eventNote returns a warning about a profile, or about a pod that was not scheduled.
func eventNote(object any) string {
	e := object.(*corev1.Event)
	if e.Type == corev1.EventTypeWarning && e.Namespace != Namespace && (e.InvolvedObject.Kind == "SchedulingProfile" || e.Reason == "FailedScheduling") {
		return fmt.Sprintf("event: %s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return ""
}

// ReadMetrics records the problems in metrics in the text format. It returns whether the process is
// the leader.
func (w *ProblemRecorder) ReadMetrics(metrics []byte) (leads bool, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return false, err
	}
	for _, m := range families["leader_election_master_status"].GetMetric() {
		leads = leads || m.GetGauge().GetValue() == 1
	}
	for _, m := range families["berth_profile_running"].GetMetric() {
		if m.GetGauge().GetValue() != 1 {
			w.add(fmt.Sprintf("berth_profile_running%v is %v", labels(m), m.GetGauge().GetValue()))
		}
	}
	for _, m := range families["berth_profile_condition"].GetMetric() {
		if l := labels(m); slices.Contains(mustBeTrue, l["condition"]) && m.GetGauge().GetValue() != 1 {
			w.add(fmt.Sprintf("berth_profile_condition%v is %v", l, m.GetGauge().GetValue()))
		}
	}
	for _, name := range []string{"berth_held_pods", "berth_unserved_pods"} {
		for _, m := range families[name].GetMetric() {
			if m.GetGauge().GetValue() != 0 {
				w.add(fmt.Sprintf("%s%v is %v", name, labels(m), m.GetGauge().GetValue()))
			}
		}
	}
	return leads, nil
}

func labels(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, pair := range m.GetLabel() {
		all[pair.GetName()] = pair.GetValue()
	}
	return all
}
