package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Fence says which pending pods a new leader has to fence before it schedules.
type Fence string

// The values of Fence.
const (
	// FenceNone: there was no leader before.
	FenceNone Fence = "none"
	// FenceFresh: pods whose version does not carry PodScheduled=False, and the pods
	// in the journal.
	FenceFresh Fence = "fresh"
	// FenceAll: every pending pod. The journal of the leader before is missing or does
	// not describe that leader.
	FenceAll Fence = "all"
	// fenceDone: the leader that wrote this has fenced what it had to.
	fenceDone Fence = "done"
)

// The keys of the ConfigMap's data.
const (
	holderKey   = "holder"
	epochKey    = "epoch"
	electionKey = "election"
	fenceKey    = "fence"
	podsKey     = "pods"
	// leaseKey is the UID of the Lease that the epoch is of. Earlier versions of Berth wrote none.
	leaseKey = "leaseUID"
	// closedKey is "true" where the holder sends no Bindings any more.
	closedKey = "closed"
)

const description = "Written by Berth before it binds pods whose status says PodScheduled=False. A new leader reads it; do not edit or delete it."

// content is what one version of the journal says.
type content struct {
	// holder is the process that wrote it, epoch the leader epoch of that process.
	// elected says that the epoch is that of the Lease, whose UID lease is; empty where that is
	// not known.
	holder  string
	epoch   int64
	elected bool
	lease   types.UID
	// fence is what holder still has to fence.
	fence Fence
	pods  sets.Set[types.UID]
	// closed says that holder had sent its last Binding before it wrote this version.
	closed bool
}

// toConfigMap returns the ConfigMap that says c and replaces the given version; the
// version is empty for one that is to be created.
func toConfigMap(name, version string, c content) *v1.ConfigMap {
	election := "none"
	if c.elected {
		election = "lease"
	}
	uids := make([]string, 0, len(c.pods))
	for uid := range c.pods {
		uids = append(uids, string(uid))
	}
	slices.Sort(uids)
	object := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: version,
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "berth"},
			Annotations: map[string]string{"kubernetes.io/description": description},
		},
		Data: map[string]string{
			holderKey: c.holder, epochKey: strconv.FormatInt(c.epoch, 10), electionKey: election,
			fenceKey: string(c.fence), podsKey: strings.Join(uids, "\n"),
		},
	}
	if c.lease != "" {
		object.Data[leaseKey] = string(c.lease)
	}
	if c.closed {
		object.Data[closedKey] = "true"
	}
	return object
}

// fromConfigMap reads a ConfigMap. The error names the key that is invalid.
func fromConfigMap(object *v1.ConfigMap) (c content, err error) {
	c = content{
		holder: object.Data[holderKey], fence: Fence(object.Data[fenceKey]), pods: sets.New[types.UID](),
		lease:  types.UID(object.Data[leaseKey]),
		closed: object.Data[closedKey] == "true",
	}
	if c.epoch, err = strconv.ParseInt(object.Data[epochKey], 10, 64); err != nil {
		return c, fmt.Errorf("data.%s: must be a number, got %q", epochKey, object.Data[epochKey])
	}
	switch election := object.Data[electionKey]; election {
	case "lease", "none":
		c.elected = election == "lease"
	default:
		return c, fmt.Errorf("data.%s: must be lease or none, got %q", electionKey, election)
	}
	switch c.fence {
	case FenceNone, FenceFresh, FenceAll, fenceDone:
	default:
		return c, fmt.Errorf("data.%s: must be none, fresh, all or done, got %q", fenceKey, c.fence)
	}
	if c.holder == "" {
		return c, errors.New("data.holder: must not be empty")
	}
	for uid := range strings.FieldsSeq(object.Data[podsKey]) {
		c.pods.Insert(types.UID(uid))
	}
	return c, nil
}

// Leadership is what a new leader knows of itself.
type Leadership struct {
	// Elected says that the leader holds the Lease, Epoch is the Lease's, and Lease its UID: a
	// Lease that is deleted and created again counts from 0 again. Without an election the
	// journal counts the epochs.
	Elected bool
	Epoch   int64
	Lease   types.UID
	// First says that there was no leader before this process, as far as it knows without the
	// journal.
	First bool
}

// initialContent returns what a new leader writes first. before is what the journal
// says, nil where there is none; err says why it cannot be read.
func initialContent(holder string, l Leadership, before *content, err error) content {
	c := content{holder: holder, epoch: l.Epoch, elected: l.Elected, lease: l.Lease, fence: FenceAll, pods: sets.New[types.UID]()}
	switch {
	case err != nil:
		return c
	case before == nil:
		if l.First {
			c.fence = FenceNone
		}
		return c
	}
	if !l.Elected {
		c.epoch = before.epoch + 1
	}
	c.pods = maps.Clone(before.pods)
	precedes := before.elected == l.Elected && before.lease == l.Lease && before.epoch == c.epoch-1 && !(l.Elected && l.First)
	if precedes && before.fence != FenceAll {
		c.fence = FenceFresh
	}
	return c
}
