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

// Sandbox is a copy of the cluster on which plugins are evaluated. Pods that they place
// are assumed in the copy only. A Sandbox is not safe for concurrent use.
type Sandbox struct {
	cache       *cache.Cache
	cycle       cycle.Cycle
	nodes       map[string]*v1.Node
	assigned    map[types.UID]*v1.Pod
	nominations []nomination
	// assumed are the pods that were assumed since the last reset.
	assumed []*v1.Pod

	pool *Pool // nil: the Sandbox is not reused
	// inUse says that plugins hold the Sandbox and their evaluation has not ended.
	inUse bool
	// exposed says that out-of-tree plugins were given the Sandbox. They may read what
	// they were given at any later time.
	exposed bool
}

// NewSandbox returns a copy of the cluster. The caller may Release it after use.
func (c *ClusterState) NewSandbox() *Sandbox {
	sandbox := c.pool.get()
	sandbox.load(c)
	return sandbox
}

// reset makes the Sandbox equal to the state that was loaded.
func (s *Sandbox) reset() {
	for _, pod := range s.assumed {
		s.cache.ForgetPod(pod.UID)
	}
	s.assumed, s.cycle = nil, cycle.Cycle{}
	for _, p := range s.nominations {
		if info, _ := framework.NewPodInfo(p.pod); info != nil {
			s.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{
				NominatingMode: fwk.ModeOverride, NominatedNodeName: p.node,
			})
		}
	}
	s.cache.UpdateSnapshot()
}

// Lister returns the snapshot that plugins read.
func (s *Sandbox) Lister() fwk.SharedLister {
	s.inUse = true
	return s.cache.Snapshot()
}

// Nominator returns the nominations of the copy.
func (s *Sandbox) Nominator() fwk.PodNominator { return s.cache.Nominator }

// Candidate is the plugins of a profile, built on a Sandbox.
type Candidate struct {
	Framework                *framework.Framework
	PercentageOfNodesToScore int32
	// NamespaceAllowed says whether the profile may schedule pods of a namespace; nil
	// means every namespace.
	NamespaceAllowed func(namespace string) bool

	equivalenceCache *cycle.EquivalenceCache
	// queuedInfo is that of Runtime; previous is the last pod that was sorted.
	queuedInfo func(*v1.Pod) fwk.QueuedEntityInfo
	previous   fwk.QueuedEntityInfo
}

// checkQueueSort lets the QueueSort plugin compare a pod with the previous one. The error
// says that the plugin panicked or did not return.
func (c *Candidate) checkQueueSort(pod *v1.Pod) error {
	entity := c.queuedInfo(pod)
	if c.previous != nil && !fault.SortUntried {
		c.Framework.Less(entity, c.previous)
	}
	c.previous = entity
	return c.Framework.QueueSortFault()
}

// rejection says why a pod would stay pending. Any other error is a plugin's failure.
type rejection struct{ message string }

func (r *rejection) Error() string { return r.message }

// evaluate runs the plugins for one pod and returns nil if the pod fits on a node.
func (s *Sandbox) evaluate(ctx context.Context, c *Candidate, pod *v1.Pod) (err error) {
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
		// A running pod is evaluated without the resources that it uses, and then added
		// again.
		s.cache.RemovePodByUID(pod.UID)
		defer s.cache.SetPod(pod)
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
		return &rejection{fmt.Sprintf("gated by PreEnqueue plugin %s: %s", gate, status.Message())}
	}
	placement, err := s.cycle.Run(ctx, cycle.Request{
		Framework: c.Framework, PercentageOfNodesToScore: c.PercentageOfNodesToScore,
		Pod: pod, Snapshot: s.cache.UpdateSnapshot(), State: framework.NewCycleState(), EquivalenceCache: c.equivalenceCache,
	})
	var fitErr *framework.FitError
	switch {
	case errors.As(err, &fitErr), errors.Is(err, cycle.ErrNoNodes):
		return &rejection{err.Error()}
	case err != nil || runs:
		return err
	}
	return s.assume(pod, placement.Node)
}

// assume adds the pod to a node, so that its resources are taken for later pods.
func (s *Sandbox) assume(pod *v1.Pod, node string) error {
	info, _ := framework.NewPodInfo(pod) // leaves out malformed affinity terms
	s.cache.DeleteNominatedPodIfExists(pod)
	s.assumed = append(s.assumed, pod)
	return s.cache.AssumePod(info, node)
}

// withoutNode returns a copy of a running pod as it was while it was pending.
func withoutNode(pod *v1.Pod) *v1.Pod {
	before := *pod
	before.Spec.NodeName, before.Status.NominatedNodeName = "", ""
	return &before
}
