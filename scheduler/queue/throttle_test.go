package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/test/support/fixture"
)

// runLoop pops and returns pods for the given duration, where an attempt takes as
// long as takes says for its profile. It returns the loop time of each profile.
func (w *testEnv) runLoop(takes map[string]time.Duration, total time.Duration) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for end := w.clock.Now().Add(total); w.clock.Now().Before(end); {
		a := w.TryPop()
		if a == nil {
			w.t.Fatal("no pod is active")
		}
		name := a.Pod.Spec.SchedulerName
		w.clock.Step(takes[name])
		w.RecordLoopTime(name, takes[name], 1)
		spent[name] += takes[name]
		a.Return(w.ctx)
	}
	w.check()
	return spent
}

// addProfiles adds profile q and the given numbers of pods of profiles p and q.
func (w *testEnv) addProfiles(sort string, pods map[string]int) {
	rules := w.rules
	rules.Sort = sort
	w.SetProfile(w.ctx, "q", &rules)
	for _, name := range []string{"p", "q"} { // the pods of p are older
		for i := range pods[name] {
			w.Add(w.ctx, fixture.Pod(fmt.Sprint(name, i)).SchedulerName(name).Obj())
		}
		w.clock.Step(time.Millisecond)
	}
}

func TestASlowProfileIsThrottledWhileOthersWait(t *testing.T) {
	for name, c := range map[string]struct {
		sort        string // of q; p's is Priority
		pods        map[string]int
		takes       map[string]time.Duration
		most, least float64 // of p's share
	}{
		"within its budget the oldest pods are tried first": {
			"Priority", map[string]int{"p": 5, "q": 5},
			map[string]time.Duration{"p": 5 * time.Millisecond, "q": 4 * time.Millisecond}, 1, 0.99,
		},
		"a slow profile gets a tenth": {
			"Priority", map[string]int{"p": 5, "q": 5},
			map[string]time.Duration{"p": 50 * time.Millisecond, "q": 4 * time.Millisecond}, 0.13, 0.08,
		},
		"a slow profile with another sort gets a tenth": {
			"Other", map[string]int{"p": 5, "q": 5},
			map[string]time.Duration{"p": 50 * time.Millisecond, "q": 4 * time.Millisecond}, 0.13, 0.08,
		},
		"a profile that hangs gets a tenth": {
			"Priority", map[string]int{"p": 5, "q": 5},
			map[string]time.Duration{"p": 10 * time.Second, "q": 4 * time.Millisecond}, 0.12, 0.08,
		},
		"a slow profile gets all while no other has pods": {
			"Priority", map[string]int{"p": 5},
			map[string]time.Duration{"p": 50 * time.Millisecond}, 1, 1,
		},
		"two slow profiles share": {
			"Other", map[string]int{"p": 5, "q": 5},
			map[string]time.Duration{"p": 50 * time.Millisecond, "q": 50 * time.Millisecond}, 0.6, 0.4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.addProfiles(c.sort, c.pods)
			spent := w.runLoop(c.takes, 300*time.Second)
			share := float64(spent["p"]) / float64(spent["p"]+spent["q"])
			if share > c.most || share < c.least {
				t.Errorf("the share of profile p is %.3f, want %.2f to %.2f", share, c.least, c.most)
			}
			for name, n := range c.pods {
				if got := w.Counts(name).Active; got != n {
					t.Errorf("%d pods of %s are active, want %d", got, name, n)
				}
			}
		})
	}
}

func TestAReplacedProfileIsNotThrottled(t *testing.T) {
	w := newTestEnv(t)
	w.addProfiles("Priority", map[string]int{"p": 1, "q": 1})
	w.RecordLoopTime("p", time.Minute, 1)
	w.pop("q0").Return(w.ctx)
	w.setProfile()
	w.pop("q0").Return(w.ctx)
	w.rules.Hash = "another"
	w.setProfile()
	w.pop("p0")
}
