package upstream

import (
	"context"
	"errors"
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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

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

// preemptName is the name of a plugin that is kube-scheduler's DefaultPreemption for groups,
// without evictions.
const preemptName = "GroupPreemption"

type groupPreemption struct {
	fwk.PodGroupPostFilterPlugin
	// victims are those of the last preemption.
	victims []*v1.Pod
}

func (*groupPreemption) Name() string { return preemptName }

// PodGroupPostFilter is upstream's; it forgets the victims of the preemption before.
func (p *groupPreemption) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	p.victims = nil
	return p.PodGroupPostFilterPlugin.PodGroupPostFilter(ctx, state, group, schedule)
}

// newGroupPreemption returns the constructor of the plugin, which stores it in built.
func newGroupPreemption(built **groupPreemption) berthframework.Factory {
	return func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		features := feature.Features{EnableGenericWorkload: true}
		percentage := internal.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100}
		plugin, err := defaultpreemption.New(ctx, &percentage, handle, features)
		if err != nil {
			return nil, err
		}
		p := &groupPreemption{PodGroupPostFilterPlugin: plugin}
		plugin.Executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *v1.Pod, _ string) (bool, error) {
			p.victims = append(p.victims, victim)
			return false, nil
		}
		*built = p
		return p, nil
	}
}

// NewForGroups is New for AttemptGroup, with SetGenericWorkload: pods that get a node wait at
// Permit until Close. With config.Preempt, groups preempt.
func NewForGroups(ctx context.Context, config run.Config) (*Scheduler, error) {
	var preempt *groupPreemption
	config.OutOfTree = append(config.OutOfTree, berthframework.Registration{Name: holdName, New: newHold},
		berthframework.Registration{Name: preemptName, New: newGroupPreemption(&preempt)})
	profile, err := Profile(config)
	if err != nil {
		return nil, err
	}
	profile.Plugins.Permit.Enabled = append(profile.Plugins.Permit.Enabled, internal.Plugin{Name: holdName})
	profile.Plugins.PodGroupPostFilter = internal.PluginSet{Disabled: []internal.Plugin{{Name: "*"}}}
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		switch {
		case !config.Preempt:
			continue
		case plugin.Name == defaultpreemption.Name:
			plugin.Name = preemptName
		case plugin.Name != dynamicresources.Name:
			continue
		}
		profile.Plugins.PodGroupPostFilter.Enabled = append(profile.Plugins.PodGroupPostFilter.Enabled, plugin)
	}
	config.Preempt = false // no pod preempts alone
	s, err := NewForProfile(ctx, profile, config)
	if err == nil {
		s.groupPreemption = preempt
	}
	return s, err
}

// AttemptGroup runs kube-scheduler's ScheduleOne for a group, and returns for each pod its
// node, where it is assumed then, or the message why it has none.
func (s *Scheduler) AttemptGroup(group *schedulingv1beta1.PodGroup, pods []*v1.Pod) (outcomes []*run.Outcome, err error) {
	s.scheduler.Cache.AddPodGroup(group)
	if s.groupPreemption != nil {
		s.groupPreemption.victims = nil
	}
	info := &framework.QueuedPodGroupInfo{PodGroupInfo: &framework.PodGroupInfo{
		Namespace: group.Namespace, Name: group.Name, Type: fwk.PodGroupKeyType, PodGroup: group,
	}}
	for i, pod := range pods {
		s.scheduler.Cache.AddPodGroupMember(pod)
		if err := s.addToStore(pod); err != nil {
			return nil, err
		}
		podInfo, _ := framework.NewPodInfo(pod)
		info.AddPod(&framework.QueuedPodInfo{PodInfo: podInfo, QueueingParams: framework.QueueingParams{Timestamp: time.Unix(int64(i), 0)}})
	}
	s.scheduler.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return info, nil }
	failed, nominated := map[string]string{}, map[string]string{}
	s.scheduler.FailureHandler = func(_ context.Context, _ framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, nomination *fwk.NominatingInfo, _ time.Time) {
		// The queue gives the pods that are nominated. It has those of a group while it knows the
		// PodGroup, or does not know it yet.
		s.scheduler.SchedulingQueue.Delete(s.log, podInfo.Pod)
		s.scheduler.SchedulingQueue.Add(s.ctx, podInfo.Pod)
		s.scheduler.SchedulingQueue.AddNominatedPod(s.log, podInfo.PodInfo, nomination)
		if nomination.Mode() == fwk.ModeOverride {
			nominated[podInfo.Pod.Name] = nomination.NominatedNodeName
		}
		failed[podInfo.Pod.Name] = status.Message()
		if unfit := new(framework.FitError); errors.As(status.AsError(), &unfit) {
			failed[podInfo.Pod.Name] = unfit.Error()
		}
	}
	s.scheduler.ScheduleOne(s.ctx)
	for i, pod := range pods {
		outcome := &run.Outcome{Pod: pod, Nominated: nominated[pod.Name]}
		if s.groupPreemption != nil && i == 0 {
			outcome.Victims = run.NamesOf(s.groupPreemption.victims)
		}
		if known, unknown := s.scheduler.Cache.GetPod(pod); unknown == nil {
			outcome.Node = known.Spec.NodeName
			if err := s.podStore.Delete(pod); err != nil {
				return nil, err
			}
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
