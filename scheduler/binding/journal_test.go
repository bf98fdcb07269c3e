package binding

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/probe"
)

// ledger is a Journal that writes down, among the calls of the cluster, what it is
// asked.
type fakeJournal struct {
	env *testEnv
	err error
	// held are the pods in it.
	entries map[types.UID]bool
}

func (l *fakeJournal) Commit(ctx context.Context, uid types.UID) error {
	l.env.cluster.AddCall("commit " + string(uid))
	if l.err == nil {
		l.entries[uid] = true
	}
	return l.err
}

func (l *fakeJournal) Release(uid types.UID) {
	if l.entries[uid] {
		l.env.cluster.AddCall("release " + string(uid))
	}
	delete(l.entries, uid)
}

func (l *fakeJournal) Forget(uid types.UID) { l.Release(uid) }

// refusedBefore lets the pod say that it is not scheduled.
func markNotScheduled(w *testEnv) {
	w.cluster.UpdatePod(w.pod, func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	})
}

func TestBindingsAreCommittedToTheJournal(t *testing.T) {
	known := func(w *testEnv) { markNotScheduled(w); w.pod = w.cluster.Pod(w.pod) }
	lost := fakecluster.Fault{Verb: "bind", Err: internal}
	for sentence, c := range map[string]struct {
		before func(w *testEnv)
		faults []fakecluster.Fault
		refuse error // what the journal answers
		calls  []string
		err    error
		held   bool
	}{
		"a pod that carries no refusal is not": {
			calls: []string{"bind web n1"},
		},
		"a pod whose status is unknown, since a leader took it over, is not": {
			before: func(w *testEnv) {
				w.cluster.UpdatePod(w.pod, func(p *v1.Pod) {
					p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionUnknown, Reason: reasonLeaderHandover}}
				})
				w.pod = w.cluster.Pod(w.pod)
			},
			calls: []string{"bind web n1"},
		},
		"a pod that carries one is, before it is bound": {
			before: known,
			calls:  []string{"commit default/web", "bind web n1", "release default/web"},
		},
		"a pod that is not committed is not bound": {
			before: known, refuse: errBroken,
			calls: []string{"commit default/web"}, err: errBroken,
		},
		"a refusal of our own, which the informer does not show yet, counts": {
			before: func(w *testEnv) {
				w.SetNotScheduled(w.pod, v1.PodReasonUnschedulable, "no room", nil)
				synctest.Wait()
			},
			calls: []string{"commit default/web", "bind web n1", "release default/web"},
		},
		"a refusal that only a conflict tells of counts": {
			before: markNotScheduled,
			calls:  []string{"bind web n1", "get web", "commit default/web", "bind web n1", "release default/web"},
		},
		"and where that is not committed, the pod is not bound": {
			before: markNotScheduled, refuse: errBroken,
			calls: []string{"bind web n1", "get web", "commit default/web"}, err: errBroken,
		},
		"one commit is enough for all tries": {
			before: known, faults: []fakecluster.Fault{lost},
			calls: []string{"commit default/web", "bind web n1", "get web", "bind web n1", "release default/web"},
		},
		"a refusal for good ends it": {
			before: known, faults: []fakecluster.Fault{{Verb: "bind", Err: forbidden}},
			calls: []string{"commit default/web", "bind web n1", "release default/web"}, err: forbidden,
		},
		"a Binding that was given up is closed before the pod leaves the journal": {
			before: known, faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Times: maxRebinds + 1}, {Verb: "patch", Err: internal, Committed: true}},
			calls: []string{"commit default/web", "bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web",
				"bind web n1", "get web", "bind web n1", "get web", "get web", "release default/web"},
			err: internal,
		},
		"nobody knows what became of it when the process ends: it stays": {
			before: func(w *testEnv) {
				known(w)
				var end context.CancelFunc
				w.ctx, end = context.WithCancel(w.ctx)
				w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal}, fakecluster.Fault{Verb: "get", Err: internal, Before: end})
			},
			calls: []string{"commit default/web", "bind web n1", "get web"}, err: context.Canceled, held: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				l := &fakeJournal{env: w, err: c.refuse, entries: map[types.UID]bool{}}
				w.options.Journal = l
				w.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				w.b.Statuses = w.a.Statuses
				if c.before != nil {
					c.before(w)
				}
				w.cluster.Inject(c.faults...)
				w.calls() // of what came before
				_, err := w.bindPod()
				wantLines(t, "calls", w.calls(), c.calls...)
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				if l.entries[w.pod.UID] != c.held {
					t.Errorf("the journal holds the pod: %v, want %v", l.entries[w.pod.UID], c.held)
				}
			})
		})
	}
}

func TestAPodThatIsGoneLeavesTheJournal(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		l := &fakeJournal{env: w, entries: map[types.UID]bool{w.pod.UID: true}}
		w.options.Journal = l
		w.Forget(w.pod.UID)
		if l.entries[w.pod.UID] {
			t.Error("the journal holds a pod that is gone")
		}
	})
}
