package binding

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/probe"
)

// fakeJournal is a Journal that records its calls among the requests to the cluster.
type fakeJournal struct {
	env *testEnv
	err error
	// entries are the pods in it.
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

// markNotScheduled sets PodScheduled=False in the API server.
func markNotScheduled(env *testEnv) {
	env.cluster.UpdatePod(env.pod, func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	})
}

func TestBindingsAreCommittedToTheJournal(t *testing.T) {
	known := func(env *testEnv) { markNotScheduled(env); env.pod = env.cluster.Pod(env.pod) }
	lost := fakecluster.Fault{Verb: "bind", Err: internal}
	for name, c := range map[string]struct {
		before func(env *testEnv)
		faults []fakecluster.Fault
		refuse error // what Commit returns
		calls  []string
		err    error
		held   bool
	}{
		"a pod without PodScheduled=False is not committed": {
			calls: []string{"bind web n1"},
		},
		"a pod with PodScheduled=Unknown, which a new leader fenced, is not committed": {
			before: func(env *testEnv) {
				env.cluster.UpdatePod(env.pod, func(p *v1.Pod) {
					p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionUnknown, Reason: reasonLeaderHandover}}
				})
				env.pod = env.cluster.Pod(env.pod)
			},
			calls: []string{"bind web n1"},
		},
		"a pod with PodScheduled=False is committed before it is bound": {
			before: known,
			calls:  []string{"commit default/web", "bind web n1", "release default/web"},
		},
		"a pod that is not committed is not bound": {
			before: known, refuse: errBroken,
			calls: []string{"commit default/web"}, err: errBroken,
		},
		"a condition of our own that the informer does not show yet counts": {
			before: func(env *testEnv) {
				env.SetNotScheduled(env.pod, v1.PodReasonUnschedulable, "no node fits", nil)
				synctest.Wait()
			},
			calls: []string{"commit default/web", "bind web n1", "release default/web"},
		},
		"a condition that only a conflict shows counts": {
			before: markNotScheduled,
			calls:  []string{"bind web n1", "get web", "commit default/web", "bind web n1", "release default/web"},
		},
		"when the commit after a conflict fails, the pod is not bound": {
			before: markNotScheduled, refuse: errBroken,
			calls: []string{"bind web n1", "get web", "commit default/web"}, err: errBroken,
		},
		"one commit is enough for all tries": {
			before: known, faults: []fakecluster.Fault{lost},
			calls: []string{"commit default/web", "bind web n1", "get web", "bind web n1", "release default/web"},
		},
		"a forbidden Binding ends the entry": {
			before: known, faults: []fakecluster.Fault{{Verb: "bind", Err: forbidden}},
			calls: []string{"commit default/web", "bind web n1", "release default/web"}, err: forbidden,
		},
		"a lost Binding is invalidated before the pod leaves the journal": {
			before: known, faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Times: maxRebinds + 1}, {Verb: "patch", Err: internal, Committed: true}},
			calls: []string{"commit default/web", "bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web",
				"bind web n1", "get web", "bind web n1", "get web", "get web", "release default/web"},
			err: internal,
		},
		"the entry stays when the process ends with an unknown outcome": {
			before: func(env *testEnv) {
				known(env)
				var end context.CancelFunc
				env.ctx, end = context.WithCancel(env.ctx)
				env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal}, fakecluster.Fault{Verb: "get", Err: internal, Before: end})
			},
			calls: []string{"commit default/web", "bind web n1", "get web"}, err: context.Canceled, held: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				l := &fakeJournal{env: env, err: c.refuse, entries: map[types.UID]bool{}}
				env.options.Journal = l
				env.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				env.b.Statuses = env.a.Statuses
				if c.before != nil {
					c.before(env)
				}
				env.cluster.Inject(c.faults...)
				env.calls() // drop the calls of the setup
				_, err := env.bindPod()
				wantLines(t, "calls", env.calls(), c.calls...)
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				if l.entries[env.pod.UID] != c.held {
					t.Errorf("the journal holds the pod: %v, want %v", l.entries[env.pod.UID], c.held)
				}
			})
		})
	}
}

func TestAPodThatIsGoneLeavesTheJournal(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		l := &fakeJournal{env: env, entries: map[types.UID]bool{env.pod.UID: true}}
		env.options.Journal = l
		env.Forget(env.pod.UID)
		if l.entries[env.pod.UID] {
			t.Error("the journal holds a pod that is gone")
		}
	})
}
