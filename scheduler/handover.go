package scheduler

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
)

const (
	// handoverRetryInterval is the pause after a request that failed.
	handoverRetryInterval = time.Second
	// handoverPollInterval is how often the informers' progress is checked.
	handoverPollInterval = 10 * time.Millisecond
	// requestTimeout is how long a write of an earlier leader may be in flight.
	requestTimeout = binding.RequestTimeout
	// tryTimeout is how long one try of a request may take, since it may be lost: no pod is
	// scheduled before the handover is complete.
	tryTimeout = 15 * time.Second
	// leastFencing is how long claims are fenced at least, however long the informers took.
	leastFencing = 10 * time.Second
)

var (
	podKind   = v1.SchemeGroupVersion.WithResource("pods")
	nodeKind  = v1.SchemeGroupVersion.WithResource("nodes")
	claimKind = resourceapi.SchemeGroupVersion.WithResource("resourceclaims")
)

// Handover is how a new leader takes over from the one before. The zero value takes
// nothing over: no other process has led.
type Handover struct {
	// Journal names the pods that already have a PodScheduled condition but may have a
	// Binding of the earlier leader in flight. With nil, every pending pod is fenced.
	Journal *journal.Journal
	// Leadership returns what this process knows of its own leadership; required with
	// Journal.
	Leadership func(ctx context.Context) (journal.Leadership, error)
	// List reads all objects of a kind from a quorum of etcd. It bounds the time of each of its
	// requests: how many there are depends on the cluster.
	List leadership.QuorumLister
	// Version returns a resource version of a kind that is newer than each earlier write, by a
	// quorum read. With nil, the informers are always compared with lists.
	Version func(ctx context.Context, kind schema.GroupVersionResource) (string, error)
	// FromStart says that this process leads from its start, without an election.
	FromStart bool
	// Profiles returns the names of all profiles, running here or not: a Binding of
	// their pods may be in flight. It bounds the time of its requests, as List does.
	Profiles func(ctx context.Context) ([]string, error)
	// ProfileCache is what the controllers know of profiles. With nil, the profiles that run are
	// taken for current.
	ProfileCache ProfileCache
}

// handOver makes sure, before the first decision, that no earlier leader can take
// resources that this leader counts as free: the informers hold all that the earlier
// leader wrote, and Bindings and allocations of devices that it still sends fail. It
// returns false when ctx ends first.
//
// The order matters: first the journal, so that no late write of an earlier leader
// changes it; then the informers; then claims and pods are fenced that existed when the
// Lease changed hands; then handOver waits for the pods that were bound before their fence and,
// where one could not be fenced, until nothing that an earlier leader sent can be in flight;
// then for the profiles, by which the earlier leader may have decided until then.
func (s *Scheduler) handOver(ctx context.Context) bool {
	if s.options.Handover.List == nil {
		return true
	}
	start := s.options.Clock.Now()
	taken, ok := s.takeOver(ctx)
	if !ok {
		return false
	}
	fromJournal := taken.journal
	if fromJournal.Fence == journal.FenceNone {
		if !s.waitForProfiles(ctx) {
			return false
		}
		s.recordHandover(start, fromJournal, fencing{}, binding.FenceResult{})
		return ctx.Err() == nil
	}
	names, ok := retry(ctx, s, 0, s.options.Handover.Profiles)
	if !ok || !s.waitForInformers(ctx, taken.versions) {
		return false
	}
	synced := s.options.Clock.Now()
	unfencedClaims := s.devices.FenceClaims(ctx, max(requestTimeout-s.options.Clock.Since(start), leastFencing))
	toFence := s.podsToFence(names, taken)
	result := s.binding.FencePods(ctx, toFence.pods, s.epoch)
	var bound []leadership.ListedObject
	for _, pod := range result.Bound {
		bound = append(bound, leadership.ListedObject{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion})
	}
	if !s.waitForObjects(ctx, bound, s.missingPods) {
		return false
	}
	if unfenced := len(result.Unfenced) + len(unfencedClaims); unfenced > 0 {
		s.options.Log.Info("Waiting until no write of an earlier leader can be in flight", "pods", len(result.Unfenced), "resourceclaims", len(unfencedClaims), "for", requestTimeout)
		if !s.waitForLateWrites(ctx, start) {
			return false
		}
	}
	if !s.waitForProfiles(ctx) {
		return false
	}
	if ctx.Err() != nil {
		return false // not all pods and claims were reached: the next leader has to fence them
	}
	toFence.informersSynced = synced.Sub(start)
	s.recordHandover(start, fromJournal, toFence, result)
	return ctx.Err() == nil
}

// waitForLateWrites waits until no Binding and no allocation that an earlier leader sent can be
// in flight, and then until all are known that took effect: no leader sends one after its successor
// has begun, at start, and an API server works on none for longer than requestTimeout.
func (s *Scheduler) waitForLateWrites(ctx context.Context, start time.Time) bool {
	if !s.sleep(ctx, requestTimeout-s.options.Clock.Since(start)) {
		return false
	}
	versions, ok := s.readQuorumVersions(ctx)
	return ok && s.waitForInformers(ctx, versions)
}

// waitForInformers waits until informers and cache hold all that was written before the
// versions were read: for the versions or, since a watch without events learns of them only a
// minute later, for each object of a quorum list at its version or a newer one.
func (s *Scheduler) waitForInformers(ctx context.Context, versions quorumVersions) bool {
	pods, nodes, ok := s.listCurrent(ctx, versions)
	if !ok {
		return false
	}
	return s.waitForObjects(ctx, pods.Objects, s.missingPods) && s.waitForObjects(ctx, nodes.Objects, s.missingNodes) &&
		s.waitForObjects(ctx, s.deletedNodes(nodes), s.cachedNodes) && s.waitForClaims(ctx)
}

// waitForClaims waits until all allocations of devices are known that the earlier leader
// has written. Volumes need no such wait: an allocation is written to a claim of its own,
// so that two for one device do not conflict.
func (s *Scheduler) waitForClaims(ctx context.Context) bool {
	if !s.options.Devices.Devices {
		return true
	}
	claims, ok := s.quorumList(ctx, claimKind, "")
	return ok && s.waitForObjects(ctx, claims.Objects, func(listed []leadership.ListedObject) []leadership.ListedObject {
		return fromFirst(listed, func(l leadership.ListedObject) bool {
			return !s.devices.HasSeenClaim(l.Namespace, l.Name, l.ResourceVersion)
		})
	})
}

func (s *Scheduler) quorumList(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, bool) {
	return retry(ctx, s, 0, func(ctx context.Context) (leadership.ObjectList, error) {
		return s.options.Handover.List(ctx, kind, fields)
	})
}

// retry calls f until it returns no error; it returns false when ctx ends first. The context of
// each call ends after limit, unless that is 0.
func retry[T any](ctx context.Context, s *Scheduler, limit time.Duration, f func(context.Context) (T, error)) (T, bool) {
	for {
		try, end := withLimit(ctx, limit)
		result, err := f(try)
		end()
		if err == nil {
			return result, true
		}
		s.options.Log.Error(err, "Leader handover: a request failed and is retried")
		if !s.sleep(ctx, handoverRetryInterval) {
			return result, false
		}
	}
}

// withLimit returns a context that ends after limit, unless that is 0. Its caller calls end.
func withLimit(ctx context.Context, limit time.Duration) (limited context.Context, end context.CancelFunc) {
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// waitForObjects waits until missing returns no object of the list, and logs every ten
// seconds which it waits for. missing returns the rest of the list that is still missing.
func (s *Scheduler) waitForObjects(ctx context.Context, listed []leadership.ListedObject, missing func([]leadership.ListedObject) []leadership.ListedObject) bool {
	for logged := s.options.Clock.Now(); ; {
		if listed = missing(listed); len(listed) == 0 {
			return true
		}
		if s.options.Clock.Since(logged) > 10*time.Second {
			logged = s.options.Clock.Now()
			s.options.Log.Info("Leader handover waits for the informers", "object", listed[0], "more", len(listed)-1)
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

// missingPods returns the list from the first pod on that the informer (for a pod with a
// node, the cache) lacks or holds at an older version.
func (s *Scheduler) missingPods(listed []leadership.ListedObject) []leadership.ListedObject {
	informer := s.options.Informers.Core().V1().Pods()
	synced := storeVersion(informer.Informer())
	return fromFirst(listed, func(l leadership.ListedObject) bool {
		pod, err := informer.Lister().Pods(l.Namespace).Get(l.Name)
		if err != nil {
			return !atLeast(synced, l.ResourceVersion) // else it was deleted
		}
		if pod.Spec.NodeName != "" {
			// No pod is assumed yet: each pod in the cache came from the informer.
			if pod = s.cache.Pod(pod.UID); pod == nil {
				return true
			}
		}
		return !atLeast(pod.ResourceVersion, l.ResourceVersion)
	})
}

// missingNodes returns the list from the first node on that the snapshot lacks or holds
// at an older version.
func (s *Scheduler) missingNodes(listed []leadership.ListedObject) []leadership.ListedObject {
	synced := storeVersion(s.options.Informers.Core().V1().Nodes().Informer())
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	s.cache.UpdateBetweenAttempts()
	snapshot := s.cache.Snapshot() // the loop does not run yet
	return fromFirst(listed, func(l leadership.ListedObject) bool {
		if info := snapshot.Node(l.Name); info != nil {
			return !atLeast(info.Node().ResourceVersion, l.ResourceVersion)
		}
		_, err := s.options.Informers.Core().V1().Nodes().Lister().Get(l.Name)
		return err == nil || !atLeast(synced, l.ResourceVersion)
	})
}

// deletedNodes returns the nodes of the informer's store and of the snapshot that the list
// lacks and that are not newer than it: they were deleted.
func (s *Scheduler) deletedNodes(list leadership.ObjectList) []leadership.ListedObject {
	nodes, err := s.options.Informers.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		s.options.Log.Error(err, "Cannot list nodes")
	}
	var known []leadership.ListedObject
	for _, node := range append(nodes, s.nodesOfSnapshot()...) {
		known = append(known, leadership.ListedObject{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion})
	}
	return unlisted(known, list)
}

// unlisted returns the known objects that the list lacks and that are not newer than it: they were
// deleted.
func unlisted(known []leadership.ListedObject, list leadership.ObjectList) (deleted []leadership.ListedObject) {
	listed := map[types.UID]bool{}
	for _, l := range list.Objects {
		listed[l.UID] = true
	}
	for _, k := range known {
		if !listed[k.UID] && !atLeast(k.ResourceVersion, list.ResourceVersion) {
			deleted = append(deleted, k)
		}
	}
	return deleted
}

// nodesOfSnapshot returns the nodes of the snapshot, which the ticker of Standby updates as well.
func (s *Scheduler) nodesOfSnapshot() (nodes []*v1.Node) {
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	s.cache.UpdateBetweenAttempts()
	for _, info := range s.cache.Snapshot().Nodes() {
		nodes = append(nodes, info.Node())
	}
	return nodes
}

// cachedNodes returns the list from the first node on that the snapshot still holds.
func (s *Scheduler) cachedNodes(deleted []leadership.ListedObject) []leadership.ListedObject {
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	s.cache.UpdateBetweenAttempts()
	snapshot := s.cache.Snapshot()
	return fromFirst(deleted, func(l leadership.ListedObject) bool {
		info := snapshot.Node(l.Name)
		return info != nil && info.Node().UID == l.UID
	})
}

// fromFirst returns the list from the first object on for which lacking is true; nil
// when there is none.
func fromFirst(listed []leadership.ListedObject, lacking func(leadership.ListedObject) bool) []leadership.ListedObject {
	if i := slices.IndexFunc(listed, lacking); i >= 0 {
		return listed[i:]
	}
	return nil
}

// atLeast reports whether a resource version equals another one or is newer. Versions
// that cannot be compared count as older.
func atLeast(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order >= 0
}
