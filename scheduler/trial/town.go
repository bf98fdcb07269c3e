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
type Sandbox struct {
	cache       *cache.Cache
	cycle       cycle.Cycle
	nodes       map[string]*v1.Node
	assigned    map[types.UID]*v1.Pod
	nominations []nomination
	// assumed are the pods that were placed since the Town was as it is.
	assumed []*v1.Pod

	pool *Pool // nil where it is kept for nobody
	// lent says that plugins have it whose trial has not come to its end.
	inUse bool
	// shown says that plugins had it that are not built in. What was told of it
	// to them they may read for as long as they like.
	exposed bool
}

// Town copies the cluster. Whoever is done with it may give it back.
func (s *ClusterState) NewSandbox() *Sandbox {
	t := s.pool.get()
	t.load(s)
	return t
}

// restore makes the Town what it was at first.
func (t *Sandbox) reset() {
	for _, pod := range t.assumed {
		t.cache.ForgetPod(pod.UID)
	}
	t.assumed, t.cycle = nil, cycle.Cycle{}
	for _, p := range t.nominations {
		if info, _ := framework.NewPodInfo(p.pod); info != nil {
			t.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{
				NominatingMode: fwk.ModeOverride, NominatedNodeName: p.node,
			})
		}
	}
	t.cache.UpdateSnapshot()
}

// Lister is the copy as plugins see it.
func (t *Sandbox) Lister() fwk.SharedLister {
	t.inUse = true
	return t.cache.Snapshot()
}

// Nominator holds the copy's promises.
func (t *Sandbox) Nominator() fwk.PodNominator { return t.cache.Nominator }

// Candidate is a profile's plugins, built on a Town.
type Candidate struct {
	Framework                *framework.Framework
	PercentageOfNodesToScore int32
	// Allows says whether the profile takes pods of a namespace; nil: of all.
	NamespaceAllowed func(namespace string) bool

	equivalenceCache *cycle.EquivalenceCache
	// queued is the Rules', and before is whom was asked about last.
	queuedInfo func(*v1.Pod) fwk.QueuedEntityInfo
	previous   fwk.QueuedEntityInfo
}

// sorts has the QueueSort plugin compare a pod with the one before it. The error
// is that it cannot.
func (c *Candidate) checkQueueSort(pod *v1.Pod) error {
	entity := c.queuedInfo(pod)
	if c.previous != nil && !fault.SortUntried {
		c.Framework.Less(entity, c.previous)
	}
	c.previous = entity
	return c.Framework.QueueSortFault()
}

// refusal is why a pod would wait. Every other error is a fault of the plugins.
type rejection struct{ message string }

func (r *rejection) Error() string { return r.message }

// ask lets the plugins decide about one pod: nil where it fits.
func (t *Sandbox) evaluate(ctx context.Context, c *Candidate, pod *v1.Pod) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the attempt panicked: %v", r)
		}
	}()
	if c.NamespaceAllowed != nil && !c.NamespaceAllowed(pod.Namespace) {
		return &rejection{"spec.allowedNamespaces does not match its namespace"}
	}
	runs := pod.Spec.NodeName != ""
	if runs && !fault.TrialInPlace {
		// It is tried without the room that it takes, and then has it again.
		t.cache.RemovePodByUID(pod.UID)
		defer t.cache.SetPod(pod)
	}
	if runs {
		pod = withoutNode(pod)
	}
	if err := c.checkQueueSort(pod); err != nil {
		return err
	}
	gate, status := c.Framework.RunPreEnqueuePlugins(ctx, pod, "", nil)
	if status.Code() == fwk.Error {
		return status.AsError()
	} else if gate != "" {
		return &rejection{fmt.Sprintf("plugin %s does not let it into the queue: %s", gate, status.Message())}
	}
	placement, err := t.cycle.Run(ctx, cycle.Request{
		Framework: c.Framework, PercentageOfNodesToScore: c.PercentageOfNodesToScore,
		Pod: pod, Snapshot: t.cache.UpdateSnapshot(), State: framework.NewCycleState(), EquivalenceCache: c.equivalenceCache,
	})
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit), errors.Is(err, cycle.ErrNoNodes):
		return &rejection{err.Error()}
	case err != nil || runs:
		return err
	}
	return t.assume(pod, placement.Node)
}

// assume gives the pod its room, which those after it do not find any more.
func (t *Sandbox) assume(pod *v1.Pod, node string) error {
	info, _ := framework.NewPodInfo(pod) // what is malformed was passed over
	t.cache.DeleteNominatedPodIfExists(pod)
	t.assumed = append(t.assumed, pod)
	return t.cache.AssumePod(info, node)
}

// waiting is a pod that runs as it was when it waited.
func withoutNode(pod *v1.Pod) *v1.Pod {
	before := *pod
	before.Spec.NodeName, before.Status.NominatedNodeName = "", ""
	return &before
}
