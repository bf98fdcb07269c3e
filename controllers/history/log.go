package history

import (
	"bytes"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/compile"
)

// Log is the history of one profile at one time.
type Log struct {
	// Revisions are in no order.
	Revisions []compile.Revision
	// Trouble says why nothing is stored; empty when all is.
	Trouble string
	// Namespace is where the history is kept.
	Namespace string

	shelf   shelf
	entries map[string]*appsv1.ControllerRevision
}

// Durable says whether the history outlives the process.
func (l *Log) Durable() bool { return l.Trouble == "" }

// Read returns the history of a profile. An error means that a later try may
// end better; after a few of them in a row, or where it is certain that
// nothing can be read, what this process remembers is returned instead.
func (h *History) Read(ctx context.Context, profile string) (*Log, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if h.cluster == nil {
		return h.remembered(ctx, profile, "this process was started without a namespace to keep it in"), nil
	}
	list, err := h.cluster.list(ctx, profile)
	if err == nil {
		h.read(profile, true)
		return h.log(h.cluster, list, ""), nil
	}
	if !apierrors.IsForbidden(err) && h.read(profile, false) < patienceWithReads {
		return nil, fmt.Errorf("reading the history of SchedulingProfile %s: %w", profile, err)
	}
	return h.remembered(ctx, profile, err.Error()), nil
}

// read notes how a read ended, and returns how many failed in a row.
func (h *History) read(profile string, well bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if well {
		delete(h.unread, profile)
		return 0
	}
	h.unread[profile]++
	return h.unread[profile]
}

func (h *History) remembered(ctx context.Context, profile, trouble string) *Log {
	list, _ := h.memory.list(ctx, profile)
	return h.log(h.memory, list, trouble)
}

func (h *History) log(on shelf, list []appsv1.ControllerRevision, trouble string) *Log {
	l := &Log{Trouble: trouble, Namespace: h.options.Namespace, shelf: on, entries: map[string]*appsv1.ControllerRevision{}}
	for i := range list {
		entry := &list[i]
		l.entries[entry.Name] = entry
		if r, ok := revisionOf(entry, h.options.Process); ok {
			l.Revisions = append(l.Revisions, r)
		}
	}
	return l
}

// Stored returns name when a revision of that name outlives the process, else
// nothing.
func (l *Log) Stored(name string) string {
	if l.Durable() && l.entries[name] != nil {
		return name
	}
	return ""
}

// Holds says whether the revision of a step is there, word for word.
func (l *Log) Holds(s Step) bool {
	entry := l.entries[compile.RevisionName(s.Profile, s.Hash)]
	return entry != nil && bytes.Equal(canonical(entry.Data.Raw), canonical(s.Data))
}

// Step is one revision that is about to run.
type Step struct {
	Profile string
	UID     types.UID
	Hash    string
	// Generation is the profile's that it is.
	Generation int64
	// Data is the whole profile.
	Data []byte
	// OnTrial says that it is built for a trial only, and does not run after it.
	OnTrial bool
}
