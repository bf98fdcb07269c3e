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

const patience = time.Minute

// amongBuiltIns is amongOdds for an Odd that counts as built in, which nobody
// leaves behind; with is what else is done to p's blueprint.
func amongBuiltIns(t *testing.T, with func(*world, *compile.Blueprint), test func(w *world, o *odd)) {
	o := newOdd()
	registry := oddRegistry(o)
	builtIn := registry["Odd"]
	builtIn.BuiltIn = true
	registry["Odd"] = builtIn
	inTimeWith(t, registry, func(w *world) {
		o.opens = make(chan struct{}) // of this bubble
		blueprint := oddBlueprint("p", "one", false)
		with(w, blueprint)
		if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
			t.Fatal(err)
		}
		end := w.lead()
		test(w, o)
		o.open()
		synctest.Wait()
		end()
	}, node("n1"), node("n2"))
}

// company puts A, which is not built in, before Odd: attempts run beside the loop.
func company(w *world, b *compile.Blueprint) {
	w.options.Registry["A"] = probe.Registry(w.a)["A"]
	b.Chains[framework.Filter] = append([]framework.Entry{{Name: "A"}}, b.Chains[framework.Filter]...)
}

func TestALoopThatHangsIsNotAlive(t *testing.T) {
	alone := func(*world, *compile.Blueprint) {}
	for sentence, c := range map[string]struct {
		point string
		with  func(*world, *compile.Blueprint)
	}{
		"in PreFilter":  {"PreFilter", alone},
		"in Filter":     {"Filter", alone},
		"in PostFilter": {"PostFilter", alone},
		"in Score":      {"Score", alone},
		"in Reserve":    {"Reserve", alone},
		"in Permit":     {"Permit", alone},
		"in Filter, in an attempt that is watched":   {"Filter", company},
		"in Permit, in an attempt that is watched":   {"Permit", company},
		"in PreFilter, with company of one that can": {"PreFilter", company},
	} {
		t.Run(sentence, func(t *testing.T) {
			amongBuiltIns(t, c.with, func(w *world, o *odd) {
				dog := w.NewWatchdog(patience)
				hangs := oddly("a", c.point+" hangs once")
				if c.point == "PostFilter" {
					hangs.Labels["fits nowhere"] = ""
				}
				since := time.Now().UTC().Format(time.RFC3339)
				w.create(hangs)
				time.Sleep(patience)
				if err := dog.Alive(); err != nil {
					t.Errorf("before its time: %v", err)
				}
				time.Sleep(time.Second)
				want := fmt.Sprintf(`the loop has been at one pod since %s (1m1s), in a call of plugin "Odd" at %s; the log names the pod`, since, c.point)
				if err := dog.Alive(); err == nil || err.Error() != want {
					t.Errorf("says\n  %v\nwant\n  %s", err, want)
				}
				o.open()
				synctest.Wait()
				if err := dog.Alive(); err != nil {
					t.Errorf("when it goes on: %v", err)
				}
			})
		})
	}
}

// The loop itself leaves behind what takes longer than ten seconds.
func TestAPluginThatTakesItsTimeKillsNobody(t *testing.T) {
	var nodes []runtime.Object
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprint("n", i)))
	}
	for sentence, takes := range map[string]time.Duration{
		"each call comes back":     9 * time.Second,
		"each call is left behind": time.Hour,
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.a.Set("Filter", func() *fwk.Status { time.Sleep(takes); return nil })
				w.apply("one")
				end := w.lead()
				dog := w.NewWatchdog(patience)
				w.cluster.Apply(web("a"))
				w.cluster.Apply(web("b"))
				for range 1000 {
					time.Sleep(time.Second)
					if err := dog.Alive(); err != nil {
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

func TestWhoHasNothingToDoIsAlive(t *testing.T) {
	for sentence, c := range map[string]struct {
		leads bool
		pods  []*v1.Pod
	}{
		"a loop that waits for pods":            {true, nil},
		"a loop whose pods wait for an event":   {true, []*v1.Pod{web("a")}},
		"a follower, however many pods it sees": {false, []*v1.Pod{web("a"), web("b")}},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.a.Set("Filter", probe.Reject("full"))
				w.apply("one")
				if c.leads {
					defer w.lead()()
				}
				dog := w.NewWatchdog(patience)
				for _, pod := range c.pods {
					w.create(pod)
				}
				for range 1000 {
					time.Sleep(time.Second)
					if err := dog.Alive(); err != nil {
						t.Fatal(err)
					}
				}
			}, node("n1"))
		})
	}
}

func TestALoopThatPopsNothingIsNotAlive(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply("one")
		w.create(web("a"))
		w.pulse.leads.Store(true) // and nobody pops
		dog := w.NewWatchdog(patience)
		for range 61 {
			if err := dog.Alive(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := dog.Alive(); err == nil || !strings.HasPrefix(err.Error(), "the loop has popped no pod since") {
			t.Errorf("says %v", err)
		}
		w.queue.TryPop()
		w.pulse.begins(web("a"), time.Now())
		w.pulse.rests()
		if err := dog.Alive(); err != nil {
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
			w, end := newWorld(t, nil, node("n1"))
			defer end()
			registration := w.options.Registry["A"]
			registration.BuiltIn = true // nobody leaves it behind
			w.options.Registry["A"] = registration
			w.a.Set(point, func() *fwk.Status { <-opens; return nil })
			w.apply("one")
			defer w.lead()()
			dogs = append(dogs, w.NewWatchdog(patience))
			w.create(web("a"))
		}
		time.Sleep(patience + time.Second)
		for i, point := range points {
			want := fmt.Sprintf(`in a call of plugin "A" at %s; the log names the pod`, point)
			if err := dogs[i].Alive(); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("the watchdog says\n  %v\nwant at the end\n  %s", err, want)
			}
		}
		close(opens)
		synctest.Wait()
	})
}

// The stack is what an administrator gets to see of a step that hangs.
func TestTheWatchdogLogsTheStackOfTheStepThatHangs(t *testing.T) {
	for sentence, with := range map[string]func(*world, *compile.Blueprint){
		"in the loop":     func(*world, *compile.Blueprint) {},
		"beside the loop": company,
	} {
		t.Run(sentence, func(t *testing.T) {
			amongBuiltIns(t, with, func(w *world, o *odd) {
				var stacks []string
				w.options.Log = funcr.New(func(_, text string) { stacks = append(stacks, text) }, funcr.Options{})
				dog := w.NewWatchdog(patience)
				w.create(oddly("a", "Filter hangs once"))
				time.Sleep(patience + time.Second)
				_, again := dog.Alive(), dog.Alive()
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
