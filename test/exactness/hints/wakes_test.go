package hints

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/support/fixture"
)

// What an explanation says that wakes a pod reaches the hint of the plugin that
// refused it, and nothing else does.
func TestWhatWakesAPodIsNamed(t *testing.T) {
	for _, plugin := range refusing() {
		t.Run(plugin, func(t *testing.T) {
			w, err := newWorld(t.Context(), plugin, generate.NewChanges(*firstSeed, plugin).Config(), nothing)
			if err != nil {
				t.Fatal(err)
			}
			named := w.profile.RequeueEvents(plugin)
			if len(named) == 0 {
				t.Fatal("nothing wakes it")
			}
			if !slices.IsSorted(named) {
				t.Errorf("%q is not sorted", named)
			}
			for _, event := range happenings() {
				reached := w.reaches(t, event)
				if says := slices.ContainsFunc(namesOf(event), func(name string) bool { return slices.Contains(named, name) }); says != reached {
					t.Errorf("%s reaches its hint: %v, and %q says %v", event.Label(), reached, named, says)
				}
			}
		})
	}
}

// happenings are all the events that intake may tell of.
func happenings() (all []fwk.ClusterEvent) {
	kinds := []fwk.EventResource{
		fwk.AssignedPod, fwk.TargetPod, fwk.Node, framework.Namespace, framework.Service, framework.ReplicationController,
		framework.ReplicaSet, framework.StatefulSet, framework.TerminatingPod, fwk.PersistentVolume, fwk.PersistentVolumeClaim,
		fwk.StorageClass, fwk.CSINode, fwk.CSIDriver, fwk.CSIStorageCapacity, fwk.VolumeAttachment,
	}
	for _, kind := range kinds {
		happen := []fwk.ActionType{fwk.Add, fwk.Delete, fwk.Update}
		for bit := fwk.UpdateNodeAllocatable; bit < fwk.All; bit <<= 1 {
			if kind == fwk.Node && bit < fwk.UpdatePodLabel || bit >= fwk.UpdatePodLabel && (kind == fwk.AssignedPod || kind == fwk.TargetPod) {
				happen = append(happen, bit)
			}
		}
		for _, action := range happen {
			all = append(all, fwk.ClusterEvent{Resource: kind, ActionType: action})
		}
	}
	return all
}

// namesOf are an event, and what is wider, in the words of api.md.
func namesOf(e fwk.ClusterEvent) (names []string) {
	action := strings.NewReplacer("UpdateNode", "Update", "UpdatePod", "Update").Replace(e.ActionType.String())
	names = append(names, string(e.Resource)+"/"+action)
	if strings.HasPrefix(action, "Update") {
		names = append(names, string(e.Resource)+"/Update")
	}
	return names
}

// reaches says whether an event comes to a hint of the plugin, for a pod that it
// refused.
func (w *world) reaches(t *testing.T, event fwk.ClusterEvent) (reached bool) {
	q := queue.New(queue.Options{Clock: w.clock})
	rules := *w.rules
	rules.PreEnqueue = func(context.Context, *v1.Pod, string) string { return "" }
	rules.Hints = slices.Clone(rules.Hints)
	for i := range rules.Hints {
		rules.Hints[i].Fn = func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
			reached = true
			return fwk.QueueSkip, nil
		}
	}
	pod := fixture.Pod("a").SchedulerName("p").Obj()
	q.SetProfile(t.Context(), "p", &rules)
	q.Add(t.Context(), pod)
	q.TryPop().Refused(t.Context(), sets.New(w.plugin), nil)
	q.Event(t.Context(), event, nil, pod, nil)
	return reached
}
