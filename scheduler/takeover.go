package scheduler

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
)

const (
	// takeoverPause is how long an API server that fails is left alone.
	handoverRetryInterval = time.Second
	// takeoverPulse is how often it is looked whether the informers caught up.
	handoverPollInterval = 10 * time.Millisecond
	// requestTimeout is for how long an API server may work at a request, whoever
	// waits for it: its --request-timeout by default.
	requestTimeout = time.Minute
)

var (
	podKind  = v1.SchemeGroupVersion.WithResource("pods")
	nodeKind = v1.SchemeGroupVersion.WithResource("nodes")
)

// Takeover is what a new leader has to ask. The zero value takes nothing over:
// nobody has led before.
type Handover struct {
	// Journal holds the pods that may have a Binding of the leader before under way,
	// though they carry a refusal; nil: every pod that waits is fenced.
	Journal *journal.Journal
	// Leadership is what this process knows of its own; required with Journal.
	Leadership func(ctx context.Context) (journal.Leadership, error)
	// Call lists what there is, by quorum reads.
	List leadership.QuorumLister
	// Profiles names the profiles that there are, whether or not they run here
	// yet: their pods may be on their way to a node.
	Profiles func(ctx context.Context) ([]string, error)
}

// takeOver makes sure, before the first decision, that an earlier leader cannot
// take room that is decided about: the informers hold all that it has written, and
// what it still sends fails. It reports false when ctx ends first.
//
// The order matters: the journal first, so that no late write of an earlier leader
// changes it; then the informers; pods are fenced that were there when the Lease had
// changed hands; what was bound until each was fenced is waited for again.
func (s *Scheduler) handOver(ctx context.Context) bool {
	if s.options.Handover.List == nil {
		return true
	}
	began := s.options.Clock.Now()
	told, ok := s.takeOverJournal(ctx)
	if !ok {
		return false
	}
	if told.Fence == journal.FenceNone {
		s.recordHandover(began, told, fencing{}, binding.FenceResult{})
		return ctx.Err() == nil
	}
	names, ok := retry(ctx, s, s.options.Handover.Profiles)
	if !ok || !s.waitForInformers(ctx) {
		return false
	}
	caughtUp := s.options.Clock.Now()
	fenced := s.podsToFence(names, told)
	came := s.binding.FencePods(ctx, fenced.pods, s.epoch)
	var bound []leadership.ListedObject
	for _, pod := range came.Bound {
		bound = append(bound, leadership.ListedObject{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion})
	}
	if !s.waitForObjects(ctx, bound, s.missingPods) {
		return false
	}
	if len(came.Unfenced) > 0 {
		s.options.Log.Info("Waiting until no Binding of an earlier leader can be under way", "pods", len(came.Unfenced), "for", requestTimeout)
		if !s.sleep(ctx, requestTimeout-s.options.Clock.Since(began)) || !s.waitForInformers(ctx) {
			return false
		}
	}
	if ctx.Err() != nil && !fault.TakeoverCutShortCounts {
		return false // not all were tried: the next leader is to fence them
	}
	fenced.caughtUp = caughtUp.Sub(began)
	s.recordHandover(began, told, fenced, came)
	return ctx.Err() == nil
}

// catchUp waits until informers and cache hold what a quorum read finds: each
// object at its version or a newer one. What its list is told by is no version of
// any object: a watch on which nothing happens learns of it a minute later.
func (s *Scheduler) waitForInformers(ctx context.Context) bool {
	if fault.TakeoverUnseen {
		return true
	}
	pods, ok := s.quorumList(ctx, podKind, eventhandlers.NonTerminatedPods)
	if !ok {
		return false
	}
	nodes, ok := s.quorumList(ctx, nodeKind, "")
	if !ok {
		return false
	}
	return s.waitForObjects(ctx, pods.Objects, s.missingPods) && s.waitForObjects(ctx, nodes.Objects, s.missingNodes) &&
		s.waitForObjects(ctx, s.deletedNodes(nodes), s.cachedNodes)
}

func (s *Scheduler) quorumList(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, bool) {
	return retry(ctx, s, func(ctx context.Context) (leadership.ObjectList, error) {
		return s.options.Handover.List(ctx, kind, fields)
	})
}

// retried asks until there is an answer; it reports false when ctx ends first.
func retry[T any](ctx context.Context, s *Scheduler, ask func(context.Context) (T, error)) (T, bool) {
	for {
		answer, err := ask(ctx)
		if err == nil {
			return answer, true
		}
		s.options.Log.Error(err, "Taking over")
		if !s.sleep(ctx, handoverRetryInterval) {
			return answer, false
		}
	}
}

// until waits until nothing of what is listed is lacking, and says now and then
// what is. lacks returns what is left to wait for.
func (s *Scheduler) waitForObjects(ctx context.Context, listed []leadership.ListedObject, lacks func([]leadership.ListedObject) []leadership.ListedObject) bool {
	for told := s.options.Clock.Now(); ; {
		if listed = lacks(listed); len(listed) == 0 {
			return true
		}
		if s.options.Clock.Since(told) > 10*time.Second {
			told = s.options.Clock.Now()
			s.options.Log.Info("Taking over: a watch lags", "for", listed[0], "more", len(listed)-1)
		}
		if !s.sleep(ctx, handoverPollInterval) {
			return false
		}
	}
}

func (s *Scheduler) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.options.Clock.After(d):
		return true
	}
}

// lacksPods returns the listed pods from the first on of which the informer, or
// the cache where it has a node, knows less than what was listed.
func (s *Scheduler) missingPods(listed []leadership.ListedObject) []leadership.ListedObject {
	informer := s.options.Informers.Core().V1().Pods()
	passed := informer.Informer().LastSyncResourceVersion()
	return fromFirst(listed, func(l leadership.ListedObject) bool {
		pod, err := informer.Lister().Pods(l.Namespace).Get(l.Name)
		if err != nil {
			return !atLeast(passed, l.ResourceVersion) // else it is gone
		}
		if pod.Spec.NodeName != "" {
			// Nothing is assumed yet: what the cache has was confirmed.
			if pod = s.cache.Pod(pod.UID); pod == nil {
				return true
			}
		}
		return !atLeast(pod.ResourceVersion, l.ResourceVersion)
	})
}

// lacksNodes is lacksPods for nodes.
func (s *Scheduler) missingNodes(listed []leadership.ListedObject) []leadership.ListedObject {
	passed := s.options.Informers.Core().V1().Nodes().Informer().LastSyncResourceVersion()
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	snapshot := s.cache.UpdateSnapshot() // nobody leads yet
	return fromFirst(listed, func(l leadership.ListedObject) bool {
		if info := snapshot.Node(l.Name); info != nil {
			return !atLeast(info.Node().ResourceVersion, l.ResourceVersion)
		}
		_, err := s.options.Informers.Core().V1().Nodes().Lister().Get(l.Name)
		return err == nil || !atLeast(passed, l.ResourceVersion)
	})
}

// beyond are the nodes that are held and were not listed: they are gone, unless
// they are newer than the list.
func (s *Scheduler) deletedNodes(roll leadership.ObjectList) []leadership.ListedObject {
	nodes, err := s.options.Informers.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		s.options.Log.Error(err, "Cannot look for nodes that are gone")
	}
	there := map[types.UID]bool{}
	for _, l := range roll.Objects {
		there[l.UID] = true
	}
	var gone []leadership.ListedObject
	for _, node := range nodes {
		if !there[node.UID] && !atLeast(node.ResourceVersion, roll.ResourceVersion) {
			gone = append(gone, leadership.ListedObject{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion})
		}
	}
	return gone
}

// hasNodes returns the nodes from the first on that the cache still has.
func (s *Scheduler) cachedNodes(gone []leadership.ListedObject) []leadership.ListedObject {
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	snapshot := s.cache.UpdateSnapshot()
	return fromFirst(gone, func(l leadership.ListedObject) bool {
		info := snapshot.Node(l.Name)
		return info != nil && info.Node().UID == l.UID
	})
}

// from is what is left of a list, from the first on that is lacking.
func fromFirst(listed []leadership.ListedObject, lacking func(leadership.ListedObject) bool) []leadership.ListedObject {
	if i := slices.IndexFunc(listed, lacking); i >= 0 {
		return listed[i:]
	}
	return nil
}

// atLeast says whether a resource version is another one or newer. What cannot be
// compared counts as older.
func atLeast(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order >= 0
}
