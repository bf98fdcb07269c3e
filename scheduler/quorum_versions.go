package scheduler

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
)

// progressTimeout is how long a new leader waits for an event that shows that its informers
// hold a version, before it lists all objects to compare them. In a large cluster, where the
// list is expensive, there are many events a second.
const progressTimeout = 200 * time.Millisecond

// quorumVersions are resource versions of quorum reads, by kind: an informer that is at least
// there holds everything that was written before the read.
type quorumVersions map[schema.GroupVersionResource]string

// readQuorumVersions reads the versions of pods and nodes. It returns false when ctx ends first.
func (s *Scheduler) readQuorumVersions(ctx context.Context) (versions quorumVersions, ok bool) {
	if s.options.Handover.Version == nil {
		return nil, true
	}
	versions = quorumVersions{}
	for _, kind := range []schema.GroupVersionResource{podKind, nodeKind} {
		if versions[kind], ok = s.readQuorumVersion(ctx, kind); !ok {
			return nil, false
		}
	}
	return versions, true
}

// readQuorumVersion reads the version of a kind. It returns false when ctx ends first.
func (s *Scheduler) readQuorumVersion(ctx context.Context, kind schema.GroupVersionResource) (string, bool) {
	return retry(ctx, s, tryTimeout, func(ctx context.Context) (string, error) { return s.options.Handover.Version(ctx, kind) })
}

// takenOver is what a new leader takes over before its informers are compared.
type takenOver struct {
	journal  journal.Handover
	versions quorumVersions
	// closedAt is a resource version: the earlier leader knew no newer one of a pod when it sent
	// its last Binding. Empty where that is not known.
	closedAt string
}

// takeOver takes the journal over, and reads the quorum versions after that: what an earlier
// leader has written by then is older, or in the journal. It returns false when ctx ends first.
func (s *Scheduler) takeOver(ctx context.Context) (t takenOver, ok bool) {
	s.leadMu.Lock()
	early := s.takenOver
	s.leadMu.Unlock()
	if early != nil {
		return *early, true
	}
	return s.takeOverNow(ctx, s.takeOverJournal)
}

// takeOverNow takes the journal over with takeJournal. Resource versions of the journal and of pods can
// be compared if both are in one etcd: then the version of the write is between those of pods
// that are read before and after it.
func (s *Scheduler) takeOverNow(ctx context.Context, takeJournal func(context.Context) (journal.Handover, bool)) (t takenOver, ok bool) {
	var before string
	if s.options.Handover.Version != nil {
		if before, ok = s.readQuorumVersion(ctx, podKind); !ok {
			return t, false
		}
	}
	if t.journal, ok = takeJournal(ctx); !ok || t.journal.Fence == journal.FenceNone {
		return t, ok
	}
	if t.versions, ok = s.readQuorumVersions(ctx); !ok {
		return t, false
	}
	if atLeast(t.journal.Version, before) && atLeast(t.versions[podKind], t.journal.Version) {
		t.closedAt = t.journal.ClosedAt
	}
	return t, true
}

// takeOverEarly takes over before the informers list, in a process that leads from its start:
// then their lists are at least as new as the quorum versions. It returns false when ctx ends
// first. Where there is no journal, the informers have to tell whether there was a leader before.
func (s *Scheduler) takeOverEarly(ctx context.Context) bool {
	handover := s.options.Handover
	if !handover.FromStart || handover.Journal == nil || handover.Version == nil {
		return true
	}
	limited, end := withLimit(ctx, tryTimeout)
	exists, err := handover.Journal.Exists(limited)
	end()
	if !exists || err != nil {
		return ctx.Err() == nil
	}
	state, ok := retry(ctx, s, tryTimeout, handover.Leadership)
	if !ok {
		return false
	}
	early, ok := s.takeOverNow(ctx, func(ctx context.Context) (journal.Handover, bool) { return handover.Journal.TakeOver(ctx, state) })
	if !ok {
		return false
	}
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	s.takenOver = &early
	return true
}

// listCurrent returns all pods and all nodes, as a quorum list does. Where the informers are
// soon at the versions, these are those of the informers, which the cache may still lack.
func (s *Scheduler) listCurrent(ctx context.Context, versions quorumVersions) (pods, nodes leadership.ObjectList, ok bool) {
	core := s.options.Informers.Core().V1()
	current := func() (pods, nodes bool) {
		return holdsVersion(core.Pods().Informer(), versions[podKind]), holdsVersion(core.Nodes().Informer(), versions[nodeKind])
	}
	podsCurrent, nodesCurrent := current()
	for start := s.options.Clock.Now(); versions != nil && !(podsCurrent && nodesCurrent) && s.options.Clock.Since(start) < progressTimeout; {
		if !s.sleep(ctx, handoverPollInterval) {
			return pods, nodes, false
		}
		podsCurrent, nodesCurrent = current()
	}
	if podsCurrent {
		pods = s.heldPods(versions[podKind])
	} else if pods, ok = s.quorumList(ctx, podKind, eventhandlers.NonTerminatedPods); !ok {
		return pods, nodes, false
	}
	if nodesCurrent {
		return pods, s.heldNodes(versions[nodeKind]), true
	}
	nodes, ok = s.quorumList(ctx, nodeKind, "")
	return pods, nodes, ok
}

// heldPods returns the informer's pods, as of a version that it holds.
func (s *Scheduler) heldPods(version string) leadership.ObjectList {
	list := leadership.ObjectList{ResourceVersion: version}
	for _, pod := range s.allPods() {
		list.Objects = append(list.Objects, leadership.ListedObject{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion})
	}
	return list
}

// heldNodes returns the informer's nodes, as of a version that it holds.
func (s *Scheduler) heldNodes(version string) leadership.ObjectList {
	list := leadership.ObjectList{ResourceVersion: version}
	nodes, err := s.options.Informers.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		s.options.Log.Error(err, "Cannot list nodes")
	}
	for _, node := range nodes {
		list.Objects = append(list.Objects, leadership.ListedObject{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion})
	}
	return list
}

// holdsVersion reports whether the store of an informer is at a version or beyond; false where
// there is no version.
func holdsVersion(informer toolscache.SharedIndexInformer, version string) bool {
	return version != "" && atLeast(storeVersion(informer), version)
}

// storeVersion is the version up to which an informer's store is complete. The informer's
// own is that of the watch, which may be ahead of the store.
func storeVersion(informer toolscache.SharedIndexInformer) string {
	return cmp.Or(informer.GetStore().LastStoreSyncResourceVersion(), informer.LastSyncResourceVersion())
}
