package scheduler

import (
	"cmp"
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/test/support/fixture"
)

// setQuorumVersion sets what a new leader's quorum reads return, and counts the lists of pods
// and nodes.
func (env *testEnv) setQuorumVersion(version string, nodes []leadership.ListedObject) (lists func() int) {
	env.setHandover(nil, nodes)
	env.options.Handover.Version = func(context.Context, schema.GroupVersionResource) (string, error) { return version, nil }
	list, calls := env.options.Handover.List, 0
	env.options.Handover.List = func(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, error) {
		if kind != claimKind {
			calls++
		}
		return list(ctx, kind, fields)
	}
	return func() int { return calls }
}

func TestANewLeaderWhoseInformersAreCurrentListsNothing(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		lists := env.setQuorumVersion("1", listedNodes("1"))
		defer env.startLeading()()
		time.Sleep(time.Second)
		if env.nodeOf("a") == "" || lists() > 0 {
			t.Errorf("a is on %q, after %d lists of pods and nodes", env.nodeOf("a"), lists())
		}
	}, node("n"), node("m"), webPod("a"))
}

// The events of pods and nodes show that the informers hold the version, before progressTimeout
// or after it.
func TestANewLeaderWaitsForTheQuorumVersion(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		lists int
	}{
		"with an event of each kind at once": {progressTimeout / 2, 0},
		"with lists when no events come":     {time.Minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.apply("one")
				lists := env.setQuorumVersion(farVersion, listedNodes(farVersion))
				defer env.startLeading()()
				time.Sleep(c.after)
				env.want("node of a before the informers hold the version", env.nodeOf("a"), "")
				env.advanceVersion()
				newer := node("n")
				newer.ResourceVersion = farVersion
				if _, err := env.cluster.CoreV1().Nodes().Update(env.ctx, newer, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				if env.nodeOf("a") == "" || lists() != c.lists {
					t.Errorf("a is on %q, after %d lists of pods and nodes; want %d", env.nodeOf("a"), lists(), c.lists)
				}
			}, node("n"), node("m"), webPod("a"), fixture.Pod("b").On("m").SchedulerName("p").Obj())
		})
	}
}

func TestARequestThatIsLostDelaysAHandoverOnly(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.setQuorumVersion("1", listedNodes("1"))
		version, lost := env.options.Handover.Version, 1
		env.options.Handover.Version = func(ctx context.Context, kind schema.GroupVersionResource) (string, error) {
			if lost > 0 {
				lost--
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return version(ctx, kind)
		}
		defer env.startLeading()()
		time.Sleep(tryTimeout + 2*handoverRetryInterval)
		if env.nodeOf("a") == "" {
			t.Error("no pod is scheduled: the handover waits for the request")
		}
	}, node("n"), node("m"), webPod("a"))
}

// A process that leads from its start takes over once, before its informers list. Where there is
// no journal, its informers have to tell whether it is the first.
func TestAProcessThatLeadsFromItsStartTakesOverOnce(t *testing.T) {
	for name, c := range map[string]struct {
		journal      bool
		early, reads int
	}{
		"after others": {true, 3, 3},
		"as the first": {false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.apply("one")
				maps := env.cluster.ConfigMaps()
				if c.journal {
					before := newJournal(maps, "the one before")
					if _, ok := before.TakeOver(env.ctx, journal.Leadership{}); !ok {
						t.Error("the journal was not taken over")
					}
					before.Fenced(nil)
					time.Sleep(time.Second)
				}
				lists := env.setQuorumVersion("1", nil)
				env.options.Handover.FromStart = true
				env.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) { return journal.Leadership{First: true}, nil }
				env.options.Handover.Journal = newJournal(maps, "this one")
				reads := 0
				env.options.Handover.Version = func(context.Context, schema.GroupVersionResource) (string, error) {
					reads++
					return "1", nil
				}
				if !env.takeOverEarly(env.ctx) || reads != c.early {
					t.Errorf("%d versions are read before the informers list, want %d", reads, c.early)
				}
				defer env.startLeading()()
				time.Sleep(time.Second)
				if env.nodeOf("a") == "" || lists() > 0 || reads != c.reads {
					t.Errorf("a is on %q, after %d lists of pods and nodes, and %d versions; want %d", env.nodeOf("a"), lists(), reads, c.reads)
				}
			}, node("n"), webPod("a"))
		})
	}
}

// Pods whose resource version the earlier leader cannot have known are not fenced, if it closed
// its journal, and if versions of the journal and of pods are of one etcd.
func TestPodsThatAreNewerThanTheLastBindingAreNotFenced(t *testing.T) {
	for name, c := range map[string]struct {
		closed bool
		// version is what quorum reads return, before and after the journal is written.
		version string
		fenced  []string
	}{
		"after a leader that closed its journal":       {true, "", []string{"old"}},
		"after a leader that was killed":               {false, "", []string{"new", "old"}},
		"with a journal in another etcd, far behind":   {true, "1000000", []string{"new", "old"}},
		"with a journal in another etcd, which is far": {true, "1", []string{"new", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				maps := env.cluster.ConfigMaps()
				before := newJournal(maps, "the one before")
				if _, ok := before.TakeOver(env.ctx, journal.Leadership{Elected: true, Epoch: 6}); !ok {
					t.Error("the journal was not taken over")
				}
				before.Fenced(nil)
				time.Sleep(time.Second)
				if c.closed {
					before.Close(env.ctx)
				}
				env.create(webPod("new"))
				env.setHandover(nil, listedNodes("1")[:1])
				env.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) {
					return journal.Leadership{Elected: true, Epoch: 7}, nil
				}
				env.options.Handover.Journal = newJournal(maps, "this one")
				env.options.Handover.Version = func(context.Context, schema.GroupVersionResource) (string, error) {
					return cmp.Or(c.version, env.cluster.ResourceVersion()), nil
				}
				env.cluster.TakeCalls()
				defer env.startLeading()()
				time.Sleep(time.Second)
				env.wantPatched(c.fenced...)
			}, node("n"), webPod("old"))
		})
	}
}
