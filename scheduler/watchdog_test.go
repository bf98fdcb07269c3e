package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/probe"
)

const hangLimit = time.Minute

// amongBuiltIns is amongOdds for an Odd that counts as built in, which nobody
// leaves behind; with is what else is done to p's blueprint.
func runWithFaultyBuiltIn(t *testing.T, with func(*testEnv, *compile.Blueprint), test func(w *testEnv, o *faultyPlugin)) {
	o := newFaultyPlugin()
	registry := faultyRegistry(o)
	builtIn := registry["Odd"]
	builtIn.InTree = true
	registry["Odd"] = builtIn
	runTestWith(t, registry, func(w *testEnv) {
		o.unblocked = make(chan struct{}) // of this bubble
		blueprint := faultyBlueprint("p", "one", false)
		with(w, blueprint)
		if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
			t.Fatal(err)
		}
		end := w.startLeading()
		test(w, o)
		o.unblock()
		synctest.Wait()
		end()
	}, node("n1"), node("n2"))
}

// company puts A, which is not built in, before Odd: attempts run beside the loop.
func addOutOfTreePlugin(w *testEnv, b *compile.Blueprint) {
	w.options.Registry["A"] = probe.Registry(w.a)["A"]
	b.Chains[framework.Filter] = append([]framework.Entry{{Name: "A"}}, b.Chains[framework.Filter]...)
}

func TestAHungLoopFailsTheLivenessCheck(t *testing.T) {
	alone := func(*testEnv, *compile.Blueprint) {}
	for sentence, c := range map[string]struct {
		point string
		with  func(*testEnv, *compile.Blueprint)
	}{
		"in PreFilter":  {"PreFilter", alone},
		"in Filter":     {"Filter", alone},
		"in PostFilter": {"PostFilter", alone},
		"in Score":      {"Score", alone},
		"in Reserve":    {"Reserve", alone},
		"in Permit":     {"Permit", alone},
		"in Filter, in an attempt that is watched":   {"Filter", addOutOfTreePlugin},
		"in Permit, in an attempt that is watched":   {"Permit", addOutOfTreePlugin},
		"in PreFilter, with company of one that can": {"PreFilter", addOutOfTreePlugin},
	} {
		t.Run(sentence, func(t *testing.T) {
			runWithFaultyBuiltIn(t, c.with, func(w *testEnv, o *faultyPlugin) {
				dog := w.NewWatchdog(hangLimit)
				hangs := faultyPod("a", c.point+" hangs once")
				if c.point == "PostFilter" {
					hangs.Labels["fits nowhere"] = ""
				}
				since := time.Now().UTC().Format(time.RFC3339)
				w.create(hangs)
				time.Sleep(hangLimit)
				if err := dog.Check(); err != nil {
					t.Errorf("before its time: %v", err)
				}
				time.Sleep(time.Second)
				want := fmt.Sprintf(`the loop has been at one pod since %s (1m1s), in a call of plugin "Odd" at %s; the log names the pod`, since, c.point)
				if err := dog.Check(); err == nil || err.Error() != want {
					t.Errorf("says\n  %v\nwant\n  %s", err, want)
				}
				o.unblock()
				synctest.Wait()
				if err := dog.Check(); err != nil {
					t.Errorf("when it goes on: %v", err)
				}
			})
		})
	}
}

// The loop itself leaves behind what takes longer than ten seconds.
func TestASlowPluginDoesNotFailTheLivenessCheck(t *testing.T) {
	var nodes []runtime.Object
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprint("n", i)))
	}
	for sentence, takes := range map[string]time.Duration{
		"each call comes back":     9 * time.Second,
		"each call is left behind": time.Hour,
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.SetStatus("Filter", func() *fwk.Status { time.Sleep(takes); return nil })
				w.apply("one")
				end := w.startLeading()
				dog := w.NewWatchdog(hangLimit)
				w.cluster.Apply(webPod("a"))
				w.cluster.Apply(webPod("b"))
				for range 1000 {
					time.Sleep(time.Second)
					if err := dog.Check(); err != nil {
						t.Error(err)
						break
					}
				}
				end()
				time.Sleep(24 * time.Hour) // until all have come back
			}, nodes...)
		})
	}
}

func TestAnIdleLoopPassesTheLivenessCheck(t *testing.T) {
	for sentence, c := range map[string]struct {
		leads bool
		pods  []*v1.Pod
	}{
		"a loop that waits for pods":            {true, nil},
		"a loop whose pods wait for an event":   {true, []*v1.Pod{webPod("a")}},
		"a follower, however many pods it sees": {false, []*v1.Pod{webPod("a"), webPod("b")}},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.SetStatus("Filter", probe.Reject("full"))
				w.apply("one")
				if c.leads {
					defer w.startLeading()()
				}
				dog := w.NewWatchdog(hangLimit)
				for _, pod := range c.pods {
					w.create(pod)
				}
				for range 1000 {
					time.Sleep(time.Second)
					if err := dog.Check(); err != nil {
						t.Fatal(err)
					}
				}
			}, node("n1"))
		})
	}
}

func TestALoopThatPopsNoPodFailsTheLivenessCheck(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.create(webPod("a"))
		w.progress.leading.Store(true) // and nobody pops
		dog := w.NewWatchdog(hangLimit)
		for range 61 {
			if err := dog.Check(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := dog.Check(); err == nil || !strings.HasPrefix(err.Error(), "the loop has popped no pod since") {
			t.Errorf("says %v", err)
		}
		w.queue.TryPop()
		w.progress.begin(webPod("a"), time.Now())
		w.progress.end()
		if err := dog.Check(); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
	})
}

// Two managers may run in one process, and the loops of both may hang.
func TestTheWatchdogFindsTheLoopOfItsOwnScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dogs []*Watchdog
		points := []string{"Filter", "PreFilter"}
		opens := make(chan struct{})
		for _, point := range points {
			w, end := newTestEnv(t, nil, node("n1"))
			defer end()
			registration := w.options.Registry["A"]
			registration.InTree = true // nobody leaves it behind
			w.options.Registry["A"] = registration
			w.a.SetStatus(point, func() *fwk.Status { <-opens; return nil })
			w.apply("one")
			defer w.startLeading()()
			dogs = append(dogs, w.NewWatchdog(hangLimit))
			w.create(webPod("a"))
		}
		time.Sleep(hangLimit + time.Second)
		for i, point := range points {
			want := fmt.Sprintf(`in a call of plugin "A" at %s; the log names the pod`, point)
			if err := dogs[i].Check(); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("the watchdog says\n  %v\nwant at the end\n  %s", err, want)
			}
		}
		close(opens)
		synctest.Wait()
	})
}

// The stack is what an administrator gets to see of a step that hangs.
func TestTheWatchdogLogsTheStackOfTheStepThatHangs(t *testing.T) {
	for sentence, with := range map[string]func(*testEnv, *compile.Blueprint){
		"in the loop":     func(*testEnv, *compile.Blueprint) {},
		"beside the loop": addOutOfTreePlugin,
	} {
		t.Run(sentence, func(t *testing.T) {
			runWithFaultyBuiltIn(t, with, func(w *testEnv, o *faultyPlugin) {
				var stacks []string
				w.options.Log = funcr.New(func(_, text string) { stacks = append(stacks, text) }, funcr.Options{})
				dog := w.NewWatchdog(hangLimit)
				w.create(faultyPod("a", "Filter hangs once"))
				time.Sleep(hangLimit + time.Second)
				_, again := dog.Check(), dog.Check()
				if again == nil || len(stacks) != 1 || !strings.Contains(stacks[0], "(*odd).Filter(") {
					t.Fatalf("the watchdog says %v and has logged, want one stack with the call of Filter:\n%s", again, stacks)
				}
				for _, want := range []string{`"name"="a"`, `"schedulingProfile"="p"`} {
					if !strings.Contains(stacks[0], want) {
						t.Errorf("the log does not name %s:\n%s", want, stacks[0])
					}
				}
			})
		})
	}
}
