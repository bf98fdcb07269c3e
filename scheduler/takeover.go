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
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/tenure"
)

const (
	// takeoverPause is how long an API server that fails is left alone.
	takeoverPause = time.Second
	// takeoverPulse is how often it is looked whether the informers caught up.
	takeoverPulse = 10 * time.Millisecond
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
type Takeover struct {
	// Journal holds the pods that may have a Binding of the leader before under way,
	// though they carry a refusal; nil: every pod that waits is fenced.
	Journal *journal.Journal
	// Leadership is what this process knows of its own; required with Journal.
	Leadership func(ctx context.Context) (journal.Leadership, error)
	// Call lists what there is, by quorum reads.
	Call tenure.Caller
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
func (s *Scheduler) takeOver(ctx context.Context) bool {
	if s.options.Takeover.Call == nil {
		return true
	}
	began := s.options.Clock.Now()
	told, ok := s.takeJournal(ctx)
	if !ok {
		return false
	}
	if told.Fence == journal.FenceNone {
		s.tookOver(began, told, fencing{}, binding.TakenOver{})
		return ctx.Err() == nil
	}
	names, ok := retried(ctx, s, s.options.Takeover.Profiles)
	if !ok || !s.catchUp(ctx) {
		return false
	}
	caughtUp := s.options.Clock.Now()
	fenced := s.toFence(names, told)
	came := s.binding.TakeOver(ctx, fenced.pods, s.epoch)
	var bound []tenure.Listed
	for _, pod := range came.Bound {
		bound = append(bound, tenure.Listed{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Version: pod.ResourceVersion})
	}
	if !s.until(ctx, bound, s.lacksPods) {
		return false
	}
	if len(came.Open) > 0 {
		s.options.Log.Info("Waiting until no Binding of an earlier leader can be under way", "pods", len(came.Open), "for", requestTimeout)
		if !s.wait(ctx, requestTimeout-s.options.Clock.Since(began)) || !s.catchUp(ctx) {
			return false
		}
	}
	if ctx.Err() != nil && !fault.TakeoverCutShortCounts {
		return false // not all were tried: the next leader is to fence them
	}
	fenced.caughtUp = caughtUp.Sub(began)
	s.tookOver(began, told, fenced, came)
	return ctx.Err() == nil
}

// catchUp waits until informers and cache hold what a quorum read finds: each
// object at its version or a newer one. What its list is told by is no version of
// any object: a watch on which nothing happens learns of it a minute later.
func (s *Scheduler) catchUp(ctx context.Context) bool {
	if fault.TakeoverUnseen {
		return true
	}
	pods, ok := s.call(ctx, podKind, intake.LivePods)
	if !ok {
		return false
	}
	nodes, ok := s.call(ctx, nodeKind, "")
	if !ok {
		return false
	}
	return s.until(ctx, pods.Objects, s.lacksPods) && s.until(ctx, nodes.Objects, s.lacksNodes) &&
		s.until(ctx, s.beyond(nodes), s.hasNodes)
}

func (s *Scheduler) call(ctx context.Context, kind schema.GroupVersionResource, fields string) (tenure.Roll, bool) {
	return retried(ctx, s, func(ctx context.Context) (tenure.Roll, error) { return s.options.Takeover.Call(ctx, kind, fields) })
}

// retried asks until there is an answer; it reports false when ctx ends first.
func retried[T any](ctx context.Context, s *Scheduler, ask func(context.Context) (T, error)) (T, bool) {
	for {
		answer, err := ask(ctx)
		if err == nil {
			return answer, true
		}
		s.options.Log.Error(err, "Taking over")
		if !s.wait(ctx, takeoverPause) {
			return answer, false
		}
	}
}

// until waits until nothing of what is listed is lacking, and says now and then
// what is. lacks returns what is left to wait for.
func (s *Scheduler) until(ctx context.Context, listed []tenure.Listed, lacks func([]tenure.Listed) []tenure.Listed) bool {
	for told := s.options.Clock.Now(); ; {
		if listed = lacks(listed); len(listed) == 0 {
			return true
		}
		if s.options.Clock.Since(told) > 10*time.Second {
			told = s.options.Clock.Now()
			s.options.Log.Info("Taking over: a watch lags", "for", listed[0], "more", len(listed)-1)
		}
		if !s.wait(ctx, takeoverPulse) {
			return false
		}
	}
}

func (s *Scheduler) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.options.Clock.After(d):
		return true
	}
}

// lacksPods returns the listed pods from the first on of which the informer, or
// the cache where it has a node, knows less than what was listed.
func (s *Scheduler) lacksPods(listed []tenure.Listed) []tenure.Listed {
	informer := s.options.Informers.Core().V1().Pods()
	passed := informer.Informer().LastSyncResourceVersion()
	return from(listed, func(l tenure.Listed) bool {
		pod, err := informer.Lister().Pods(l.Namespace).Get(l.Name)
		if err != nil {
			return !atLeast(passed, l.Version) // else it is gone
		}
		if pod.Spec.NodeName != "" {
			// Nothing is assumed yet: what the cache has was confirmed.
			if pod = s.cache.Pod(pod.UID); pod == nil {
				return true
			}
		}
		return !atLeast(pod.ResourceVersion, l.Version)
	})
}

// lacksNodes is lacksPods for nodes.
func (s *Scheduler) lacksNodes(listed []tenure.Listed) []tenure.Listed {
	passed := s.options.Informers.Core().V1().Nodes().Informer().LastSyncResourceVersion()
	s.lead.Lock()
	defer s.lead.Unlock()
	snapshot := s.cache.Refresh() // nobody leads yet
	return from(listed, func(l tenure.Listed) bool {
		if info := snapshot.Node(l.Name); info != nil {
			return !atLeast(info.Node().ResourceVersion, l.Version)
		}
		_, err := s.options.Informers.Core().V1().Nodes().Lister().Get(l.Name)
		return err == nil || !atLeast(passed, l.Version)
	})
}

// beyond are the nodes that are held and were not listed: they are gone, unless
// they are newer than the list.
func (s *Scheduler) beyond(roll tenure.Roll) []tenure.Listed {
	nodes, err := s.options.Informers.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		s.options.Log.Error(err, "Cannot look for nodes that are gone")
	}
	there := map[types.UID]bool{}
	for _, l := range roll.Objects {
		there[l.UID] = true
	}
	var gone []tenure.Listed
	for _, node := range nodes {
		if !there[node.UID] && !atLeast(node.ResourceVersion, roll.Version) {
			gone = append(gone, tenure.Listed{Name: node.Name, UID: node.UID, Version: node.ResourceVersion})
		}
	}
	return gone
}

// hasNodes returns the nodes from the first on that the cache still has.
func (s *Scheduler) hasNodes(gone []tenure.Listed) []tenure.Listed {
	s.lead.Lock()
	defer s.lead.Unlock()
	snapshot := s.cache.Refresh()
	return from(gone, func(l tenure.Listed) bool {
		info := snapshot.Node(l.Name)
		return info != nil && info.Node().UID == l.UID
	})
}

// from is what is left of a list, from the first on that is lacking.
func from(listed []tenure.Listed, lacking func(tenure.Listed) bool) []tenure.Listed {
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
