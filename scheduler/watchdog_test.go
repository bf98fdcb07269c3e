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
	"github.com/berthdev/berth/test/support/probe"
)

const hangLimit = time.Minute

// runWithFaultyBuiltIn is runWithFaultyPlugin for a faulty plugin that counts as in-tree, so
// that the loop never abandons its calls; with edits p's blueprint.
func runWithFaultyBuiltIn(t *testing.T, with func(*testEnv, *compile.Blueprint), test func(env *testEnv, o *faultyPlugin)) {
	o := newFaultyPlugin()
	registry := faultyRegistry(o)
	builtIn := registry["Odd"]
	builtIn.InTree = true
	registry["Odd"] = builtIn
	runTestWith(t, registry, func(env *testEnv) {
		o.unblocked = make(chan struct{}) // of this bubble
		blueprint := faultyBlueprint("p", "one", false)
		with(env, blueprint)
		if err := env.Profiles().Apply(env.ctx, blueprint); err != nil {
			t.Fatal(err)
		}
		end := env.startLeading()
		test(env, o)
		o.unblock()
		synctest.Wait()
		end()
	}, node("n1"), node("n2"))
}

// addOutOfTreePlugin adds the out-of-tree plugin A: attempts are asynchronous then.
func addOutOfTreePlugin(env *testEnv, b *compile.Blueprint) {
	env.options.Registry["A"] = probe.Registry(env.a)["A"]
	b.Chains[framework.Filter] = append([]framework.Entry{{Name: "A"}}, b.Chains[framework.Filter]...)
}

func TestAHungLoopFailsTheLivenessCheck(t *testing.T) {
	alone := func(*testEnv, *compile.Blueprint) {}
	for name, c := range map[string]struct {
		point string
		with  func(*testEnv, *compile.Blueprint)
	}{
		"in PreFilter":                          {"PreFilter", alone},
		"in Filter":                             {"Filter", alone},
		"in PostFilter":                         {"PostFilter", alone},
		"in Score":                              {"Score", alone},
		"in Reserve":                            {"Reserve", alone},
		"in Permit":                             {"Permit", alone},
		"in Filter, in an asynchronous attempt": {"Filter", addOutOfTreePlugin},
		"in Permit, in an asynchronous attempt": {"Permit", addOutOfTreePlugin},
		"in PreFilter, which only the in-tree plugin has": {"PreFilter", addOutOfTreePlugin},
	} {
		t.Run(name, func(t *testing.T) {
			runWithFaultyBuiltIn(t, c.with, func(env *testEnv, o *faultyPlugin) {
				dog := env.NewWatchdog(hangLimit)
				hangs := faultyPod("a", c.point+" hangs once")
				if c.point == "PostFilter" {
					hangs.Labels["fits nowhere"] = ""
				}
				since := time.Now().UTC().Format(time.RFC3339)
				env.create(hangs)
				time.Sleep(hangLimit)
				if err := dog.Check(); err != nil {
					t.Errorf("too early: %v", err)
				}
				time.Sleep(time.Second)
				want := fmt.Sprintf(`the loop has been at one pod since %s (1m1s), in a call of plugin "Odd" at %s; the log names the pod`, since, c.point)
				if err := dog.Check(); err == nil || err.Error() != want {
					t.Errorf("Check returns\n  %v\nwant\n  %s", err, want)
				}
				o.unblock()
				synctest.Wait()
				if err := dog.Check(); err != nil {
					t.Errorf("after the call returned: %v", err)
				}
			})
		})
	}
}

// The loop itself abandons calls that take longer than ten seconds.
func TestASlowPluginDoesNotFailTheLivenessCheck(t *testing.T) {
	var nodes []runtime.Object
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprint("n", i)))
	}
	for name, takes := range map[string]time.Duration{
		"each call returns":      9 * time.Second,
		"each call is abandoned": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.SetStatus("Filter", func() *fwk.Status { time.Sleep(takes); return nil })
				env.apply("one")
				end := env.startLeading()
				dog := env.NewWatchdog(hangLimit)
				env.cluster.Apply(webPod("a"))
				env.cluster.Apply(webPod("b"))
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
	for name, c := range map[string]struct {
		leads bool
		pods  []*v1.Pod
	}{
		"a loop that waits for pods":            {true, nil},
		"a loop whose pods wait for an event":   {true, []*v1.Pod{webPod("a")}},
		"a follower, however many pods it sees": {false, []*v1.Pod{webPod("a"), webPod("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.SetStatus("Filter", probe.Reject("full"))
				env.apply("one")
				if c.leads {
					defer env.startLeading()()
				}
				dog := env.NewWatchdog(hangLimit)
				for _, pod := range c.pods {
					env.create(pod)
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
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.create(webPod("a"))
		env.progress.leading.Store(true) // and no goroutine pops
		dog := env.NewWatchdog(hangLimit)
		for range 61 {
			if err := dog.Check(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := dog.Check(); err == nil || !strings.HasPrefix(err.Error(), "the loop has popped no pod since") {
			t.Errorf("Check returns %v", err)
		}
		env.queue.TryPop()
		env.progress.begin(webPod("a"), time.Now())
		env.progress.end()
		if err := dog.Check(); err != nil {
			t.Errorf("after the call returned: %v", err)
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
			env, end := newTestEnv(t, nil, node("n1"))
			defer end()
			registration := env.options.Registry["A"]
			registration.InTree = true // the loop does not abandon its calls
			env.options.Registry["A"] = registration
			env.a.SetStatus(point, func() *fwk.Status { <-opens; return nil })
			env.apply("one")
			defer env.startLeading()()
			dogs = append(dogs, env.NewWatchdog(hangLimit))
			env.create(webPod("a"))
		}
		time.Sleep(hangLimit + time.Second)
		for i, point := range points {
			want := fmt.Sprintf(`in a call of plugin "A" at %s; the log names the pod`, point)
			if err := dogs[i].Check(); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("the watchdog returns\n  %v\nwant at the end\n  %s", err, want)
			}
		}
		close(opens)
		synctest.Wait()
	})
}

// Administrators find the stack of a step that hangs in the log.
func TestTheWatchdogLogsTheStackOfTheStepThatHangs(t *testing.T) {
	for name, with := range map[string]func(*testEnv, *compile.Blueprint){
		"in the loop":                func(*testEnv, *compile.Blueprint) {},
		"in an asynchronous attempt": addOutOfTreePlugin,
	} {
		t.Run(name, func(t *testing.T) {
			runWithFaultyBuiltIn(t, with, func(env *testEnv, o *faultyPlugin) {
				var stacks []string
				env.options.Log = funcr.New(func(_, text string) { stacks = append(stacks, text) }, funcr.Options{})
				dog := env.NewWatchdog(hangLimit)
				env.create(faultyPod("a", "Filter hangs once"))
				time.Sleep(hangLimit + time.Second)
				_, again := dog.Check(), dog.Check()
				if again == nil || len(stacks) != 1 || !strings.Contains(stacks[0], "(*faultyPlugin).Filter(") {
					t.Fatalf("Check returns %v and logged, want one stack with the call of Filter:\n%s", again, stacks)
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
