package journal

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// FuzzConfigMap reads any ConfigMap as the journal of the leader before. What is read can be
// written again. A new leader never fences less than the journal allows: all pods unless the
// journal is of the leader right before it, and the journal's pods in every case.
func FuzzConfigMap(f *testing.F) {
	f.Add("host_1", "6", "lease", "done", "uid-a\nuid-b", "true", true, int64(7), false)
	f.Add("host_1", "6", "none", "fresh", "", "", false, int64(0), false)
	f.Add("", "six", "Lease", "nothing", "a b\tc\x00", "yes", true, int64(1), true)
	f.Add("h", "9223372036854775807", "none", "done", "a", "false", false, int64(0), false)
	f.Add("h", "-1", "lease", "all", "a", "", true, int64(0), true)
	f.Fuzz(func(t *testing.T, holder, epoch, election, fence, pods, closed string, elected bool, newEpoch int64, first bool) {
		object := &v1.ConfigMap{Data: map[string]string{
			holderKey: holder, epochKey: epoch, electionKey: election, fenceKey: fence, podsKey: pods, closedKey: closed,
		}}
		l := Leadership{Elected: elected, Epoch: newEpoch, First: first}
		before, err := fromConfigMap(object)
		if err != nil {
			if key, _, ok := strings.Cut(strings.TrimPrefix(err.Error(), "data."), ": "); !ok || object.Data[key] == "" && key != holderKey && !hasKey(object, key) {
				t.Fatalf("the error names no key of the ConfigMap: %v", err)
			}
			if c := initialContent("new", l, nil, err); c.fence != FenceAll {
				t.Fatalf("a journal that cannot be read is followed by the fence %q, want all", c.fence)
			}
			return
		}
		again, err := fromConfigMap(toConfigMap(Name, "1", before))
		if err != nil {
			t.Fatalf("%+v is written and cannot be read: %v", before, err)
		}
		if diff := cmp.Diff(before, again, cmp.AllowUnexported(content{})); diff != "" {
			t.Fatalf("written and read again (-want,+got):\n%s", diff)
		}
		checkInitial(t, before, l)
	})
}

func hasKey(object *v1.ConfigMap, key string) bool {
	_, has := object.Data[key]
	return has
}

// checkInitial checks what a new leader writes over a journal that can be read.
func checkInitial(t *testing.T, before content, l Leadership) {
	t.Helper()
	kept := before.pods.Clone()
	c := initialContent("new", l, &before, nil)
	if !slices.Contains([]Fence{FenceFresh, FenceAll}, c.fence) {
		t.Fatalf("fence %q after a journal", c.fence)
	}
	if !c.pods.Equal(kept) || c.holder != "new" || c.closed || c.elected != l.Elected {
		t.Fatalf("%+v after %+v: want the same pods, by this leader, and not closed", c, before)
	}
	precedes := before.elected == l.Elected && before.fence != FenceAll
	if l.Elected {
		precedes = precedes && before.epoch == l.Epoch-1 && !l.First
	}
	if c.fence == FenceFresh && !precedes {
		t.Fatalf("fence %q after %+v: the journal is not of the leader right before %+v", c.fence, before, l)
	}
	// The contents share no memory: this leader changes its own.
	c.pods.Insert("another")
	if before.pods.Has("another") && !kept.Has("another") {
		t.Fatal("the journal of this leader shares its pods with the one before")
	}
	if _, err := fromConfigMap(toConfigMap(Name, "", c)); err != nil {
		t.Fatalf("%+v is written and cannot be read: %v", c, err)
	}
}

// FuzzJournalPods writes any set of UIDs. What is read is the same set, within the bound of a
// ConfigMap for as many pods as the journal holds.
func FuzzJournalPods(f *testing.F) {
	f.Add("8a6e0804-2bd0-4672-b79d-d97027f9071a", uint16(Capacity))
	f.Add("a", uint16(0))
	f.Fuzz(func(t *testing.T, uid string, count uint16) {
		if uid == "" || len(uid) > 128 || strings.ContainsFunc(uid, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return // the API server makes UIDs
		}
		c := content{holder: "h", fence: fenceDone, pods: sets.New[types.UID]()}
		for i := range int(count) % (2 * Capacity) {
			c.pods.Insert(types.UID(uid + strings.Repeat("x", i%7) + string(rune('a'+i%26))))
		}
		object := toConfigMap(Name, "", c)
		again, err := fromConfigMap(object)
		if err != nil || !again.pods.Equal(c.pods) {
			t.Fatalf("%v are read as %v (%v)", c.pods, again.pods, err)
		}
		if n := len(object.Data[podsKey]); n > 1<<20 {
			t.Fatalf("%d bytes do not fit into a ConfigMap", n)
		}
	})
}
