package upstream

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	berthframework "github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/replay/run"
)

// SetGenericWorkload sets kube-scheduler's feature gate for groups of pods, for the
// schedulers that are built from then on.
func SetGenericWorkload(on bool) error {
	if err := prepare(); err != nil {
		return err
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"GenericWorkload": on})
}

// holdName is the name of a plugin that has pods wait at Permit: they stay assumed, and are
// not bound.
const holdName = "Hold"

type hold struct{}

func (hold) Name() string { return holdName }

func (hold) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), time.Hour
}

// NewForGroups is New for AttemptGroup, with SetGenericWorkload: pods that get a node wait at
// Permit until Close.
func NewForGroups(ctx context.Context, config run.Config) (*Scheduler, error) {
	config.OutOfTree = append(config.OutOfTree, berthframework.Registration{Name: holdName, New: newHold})
	profile, err := Profile(config)
	if err != nil {
		return nil, err
	}
	profile.Plugins.Permit.Enabled = append(profile.Plugins.Permit.Enabled, internal.Plugin{Name: holdName})
	return NewForProfile(ctx, profile, config)
}

// AttemptGroup runs kube-scheduler's ScheduleOne for a group, and returns for each pod its
// node, where it is assumed then, or the message why it has none.
func (s *Scheduler) AttemptGroup(group *schedulingv1beta1.PodGroup, pods []*v1.Pod) (outcomes []*run.Outcome, err error) {
	s.scheduler.Cache.AddPodGroup(group)
	defer s.scheduler.Cache.RemovePodGroup(s.log, group)
	info := &framework.QueuedPodGroupInfo{PodGroupInfo: &framework.PodGroupInfo{
		Namespace: group.Namespace, Name: group.Name, Type: fwk.PodGroupKeyType, PodGroup: group,
	}}
	for i, pod := range pods {
		s.scheduler.Cache.AddPodGroupMember(pod)
		podInfo, _ := framework.NewPodInfo(pod)
		info.AddPod(&framework.QueuedPodInfo{PodInfo: podInfo, QueueingParams: framework.QueueingParams{Timestamp: time.Unix(int64(i), 0)}})
	}
	s.scheduler.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return info, nil }
	failed := map[string]string{}
	s.scheduler.FailureHandler = func(_ context.Context, _ framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		failed[podInfo.Pod.Name] = status.Message()
		if err := status.AsError(); err != nil {
			failed[podInfo.Pod.Name] = err.Error()
		}
	}
	s.scheduler.ScheduleOne(s.ctx)
	for _, pod := range pods {
		outcome := &run.Outcome{Pod: pod}
		if known, unknown := s.scheduler.Cache.GetPod(pod); unknown == nil {
			outcome.Node = known.Spec.NodeName
		} else if message, ok := failed[pod.Name]; ok {
			outcome.Err = fmt.Errorf("%s", message)
		} else {
			return nil, fmt.Errorf("kube-scheduler neither assumed pod %s nor refused it", pod.Name)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// Close ends the wait of the pods that AttemptGroup has assumed.
func (s *Scheduler) Close() {
	s.scheduler.FailureHandler = func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time) {
	}
	s.framework.IterateOverWaitingPods(func(p fwk.WaitingPod) { p.Reject(holdName, "the history is over") })
}

func newHold(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return hold{}, nil }
