// Package history records all versions of the objects of a cluster, as etcd has them: in the
// order of etcd's revisions, which is one order for all kinds, and without the watch caches of
// API servers in between.
//
// The recorder watches etcd itself. A watch that breaks, since etcd is killed or restarted, is
// resumed after the last revision. Where etcd has compacted that revision, the recorder lists
// again, and the history has a Gap: versions in it are unknown.
package history

import (
	"cmp"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Change is one version of an object.
type Change struct {
	// Revision is that of etcd, and the resource version of the object.
	Revision int64
	// Seen is when the recorder received it.
	Seen time.Time
	// Object is the version; of a deleted object, the last one. It must not be changed.
	Object client.Object
	// Deleted says that the object was deleted.
	Deleted bool
	// Listed says that the version was found by a list: earlier versions may be missing, and it
	// may have been written long before Seen.
	Listed bool
	// Size is the number of bytes in etcd; 0 for a deleted object.
	Size int
}

// Gap is a part of a history in which versions are missing.
type Gap struct {
	// After is the last revision before the gap, At the revision of the list that ended it.
	After, At int64
}

// History is what was recorded.
type History struct {
	// Changes are in the order of their revisions.
	Changes []Change
	// Gaps are the parts that are incomplete.
	Gaps []Gap
	// Undecoded are the numbers of versions that could not be decoded, by the first segments of
	// their keys: kinds of other API groups than those of Kubernetes and Berth.
	Undecoded map[string]int
	// Last is the last revision that was received.
	Last int64
}

// Sort puts the changes into the order of their revisions.
func (h *History) Sort() {
	slices.SortStableFunc(h.Changes, func(a, b Change) int { return cmp.Compare(a.Revision, b.Revision) })
}
