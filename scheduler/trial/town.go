package trial

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Town is a copy of the cluster. What plugins place is assumed in it, and
// nowhere else.
type Town struct {
	cache    *cache.Cache
	cycle    cycle.Cycle
	nodes    map[string]*v1.Node
	placed   map[types.UID]*v1.Pod
	promises []promise
	// assumed are the pods that were placed since the Town was as it is.
	assumed []*v1.Pod

	towns *Towns // nil where it is kept for nobody
	// lent says that plugins have it whose trial has not come to its end.
	lent bool
	// shown says that plugins had it that are not built in. What was told of it
	// to them they may read for as long as they like.
	shown bool
}

// Town copies the cluster. Whoever is done with it may give it back.
func (s *Scene) Town() *Town {
	t := s.towns.take()
	t.bring(s)
	return t
}

// restore makes the Town what it was at first.
func (t *Town) restore() {
	for _, pod := range t.assumed {
		t.cache.Forget(pod.UID)
	}
	t.assumed, t.cycle = nil, cycle.Cycle{}
	for _, p := range t.promises {
		if info, _ := framework.NewPodInfo(p.pod); info != nil {
			t.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{
				NominatingMode: fwk.ModeOverride, NominatedNodeName: p.node,
			})
		}
	}
	t.cache.Refresh()
}

// Lister is the copy as plugins see it.
func (t *Town) Lister() fwk.SharedLister {
	t.lent = true
	return t.cache.Snapshot()
}

// Nominator holds the copy's promises.
func (t *Town) Nominator() fwk.PodNominator { return t.cache.Nominator }

// Candidate is a profile's plugins, built on a Town.
type Candidate struct {
	Framework                *framework.Framework
	PercentageOfNodesToScore int32
	// Allows says whether the profile takes pods of a namespace; nil: of all.
	Allows func(namespace string) bool

	memo *cycle.Memo
	// queued is the Rules', and before is whom was asked about last.
	queued func(*v1.Pod) fwk.QueuedEntityInfo
	before fwk.QueuedEntityInfo
}

// sorts has the QueueSort plugin compare a pod with the one before it. The error
// is that it cannot.
func (c *Candidate) sorts(pod *v1.Pod) error {
	entity := c.queued(pod)
	if c.before != nil && !fault.SortUntried {
		c.Framework.Less(entity, c.before)
	}
	c.before = entity
	return c.Framework.BrokenSort()
}

// refusal is why a pod would wait. Every other error is a fault of the plugins.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// ask lets the plugins decide about one pod: nil where it fits.
func (t *Town) ask(ctx context.Context, c *Candidate, pod *v1.Pod) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the attempt panicked: %v", r)
		}
	}()
	if c.Allows != nil && !c.Allows(pod.Namespace) {
		return &refusal{"spec.allowedNamespaces does not match its namespace"}
	}
	runs := pod.Spec.NodeName != ""
	if runs && !fault.TrialInPlace {
		// It is tried without the room that it takes, and then has it again.
		t.cache.Remove(pod.UID)
		defer t.cache.Confirm(pod)
	}
	if runs {
		pod = waiting(pod)
	}
	if err := c.sorts(pod); err != nil {
		return err
	}
	gate, status := c.Framework.RunPreEnqueuePlugins(ctx, pod, "", nil)
	if status.Code() == fwk.Error {
		return status.AsError()
	} else if gate != "" {
		return &refusal{fmt.Sprintf("plugin %s does not let it into the queue: %s", gate, status.Message())}
	}
	placement, err := t.cycle.Run(ctx, cycle.Request{
		Framework: c.Framework, PercentageOfNodesToScore: c.PercentageOfNodesToScore,
		Pod: pod, Snapshot: t.cache.Refresh(), State: framework.NewCycleState(), Memo: c.memo,
	})
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit), errors.Is(err, cycle.ErrNoNodes):
		return &refusal{err.Error()}
	case err != nil || runs:
		return err
	}
	return t.assume(pod, placement.Node)
}

// assume gives the pod its room, which those after it do not find any more.
func (t *Town) assume(pod *v1.Pod, node string) error {
	info, _ := framework.NewPodInfo(pod) // what is malformed was passed over
	t.cache.DeleteNominatedPodIfExists(pod)
	t.assumed = append(t.assumed, pod)
	return t.cache.Assume(info, node)
}

// waiting is a pod that runs as it was when it waited.
func waiting(pod *v1.Pod) *v1.Pod {
	before := *pod
	before.Spec.NodeName, before.Status.NominatedNodeName = "", ""
	return &before
}
