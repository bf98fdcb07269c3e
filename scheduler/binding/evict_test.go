package binding_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// handle knows of pods that wait at Permit and of nothing else.
type handle struct {
	fwk.Handle
	waiting map[types.UID]*waitingPod
}

func (h handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w, ok := h.waiting[uid]; ok {
		return w
	}
	return nil
}
func (handle) GetPodInPreBind(types.UID) fwk.PodInPreBind { return nil }
func (handle) NominatedPodsForNode(string) []fwk.PodInfo  { return nil }
func (handle) EventRecorder() events.EventRecorderLogger  { return &events.FakeRecorder{} }

// waiting is a pod at Permit that can be stopped once.
type waitingPod struct {
	fwk.WaitingPod
	stopped int
}

func (w *waitingPod) Preempt(string, string) bool {
	w.stopped++
	return w.stopped == 1
}

// yard is a binding room whose work beside the loop is done at once, or later.
type evictionEnv struct {
	*binding.Binding
	cache   *cache.Cache
	client  *fake.Clientset
	deleted []string
	later   []func()
}

func newEvictionEnv(pods ...*v1.Pod) *evictionEnv {
	y := &evictionEnv{cache: cache.New()}
	var objects []runtime.Object
	for _, pod := range pods {
		objects = append(objects, pod)
		y.cache.SetPod(pod)
	}
	y.client = fake.NewClientset(objects...)
	y.client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		request := a.(clienttesting.DeleteActionImpl)
		y.deleted = append(y.deleted, request.Name+" "+string(*request.DeleteOptions.Preconditions.UID))
		return true, nil, nil
	})
	y.Binding = binding.New(binding.Options{
		Client: y.client, Cache: y.cache, Clock: clock.RealClock{}, Go: func(work func()) { y.later = append(y.later, work) },
	})
	return y
}

// evict begins to carry out a plan and returns where its end will be noted.
func (y *evictionEnv) evict(t *testing.T, h handle, preemptor string, victims ...*v1.Pod) *binding.EvictionResult {
	end := &binding.EvictionResult{Victims: -1}
	y.Evict(t.Context(), h, &framework.PreemptionPlan{
		Plugin: "DefaultPreemption", Node: "n1", Victims: victims, Preemptor: fixture.Pod(preemptor).Priority(9).Obj(),
	}, func(e binding.EvictionResult) { *end = e })
	return end
}

func (y *evictionEnv) runWork() {
	for len(y.later) > 0 {
		work := y.later[0]
		y.later = y.later[1:]
		work()
	}
}

func TestAVictimIsEvictedOnce(t *testing.T) {
	a, b := fixture.Pod("shop/a").On("n1").Obj(), fixture.Pod("shop/b").On("n1").Obj()
	y := newEvictionEnv(a, b)
	first, second := y.evict(t, handle{}, "bank/first", a), y.evict(t, handle{}, "bank/second", a, b)
	y.runWork()
	if diff := cmp.Diff([]string{"a shop/a", "b shop/b"}, y.deleted); diff != "" {
		t.Errorf("deleted, by name and UID (-want +got):\n%s", diff)
	}
	want := binding.EvictionResult{Victims: 1, DeleteEventExpected: true}
	if *first != want || *second != want {
		t.Errorf("ends %+v and %+v, want %+v twice: each told one victim", *first, *second, want)
	}
}

// Nothing it could find has changed, so that a try would only have it change its
// mind, and wake others who change theirs.
func TestAPreemptorWaitsWhileAnotherPlanEvictsItsVictim(t *testing.T) {
	refused := error(apierrors.NewForbidden(v1.Resource("pods"), "a", errors.New("the server said no")))
	for sentence, c := range map[string]struct {
		answers       []error
		first, second binding.EvictionResult
	}{
		"and has its room when that is done": {
			[]error{nil}, binding.EvictionResult{Victims: 1, DeleteEventExpected: true}, binding.EvictionResult{DeleteEventExpected: true},
		},
		"and tells it itself when that failed": {
			[]error{refused, nil}, binding.EvictionResult{Err: refused}, binding.EvictionResult{Victims: 1, DeleteEventExpected: true},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			a := fixture.Pod("shop/a").On("n1").Obj()
			y := newEvictionEnv(a)
			asked, waits := 0, false
			var second *binding.EvictionResult
			y.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if asked++; asked == 1 {
					second = y.evict(t, handle{}, "bank/second", a)
					y.runWork()
					waits = y.Evicting("bank/second") && second.Victims == -1
				}
				err := c.answers[asked-1]
				return err != nil, nil, err
			})
			first := y.evict(t, handle{}, "bank/first", a)
			y.runWork()
			if !waits {
				t.Error("the second preemptor does not wait")
			}
			if diff := cmp.Diff([]binding.EvictionResult{c.first, c.second}, []binding.EvictionResult{*first, *second}, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
			if asked != len(c.answers) || y.Evicting("bank/first") || y.Evicting("bank/second") {
				t.Errorf("told %d times, want %d, and nobody waiting in the end", asked, len(c.answers))
			}
		})
	}
}

// The deletion finds the victim wherever it is, and may not be heard of yet.
func TestAVictimThatAnotherSchedulerBindsIsNotEvictedAgain(t *testing.T) {
	for sentence, late := range map[string]bool{"while it is being told": true, "after it was told": false} {
		t.Run(sentence, func(t *testing.T) {
			a := fixture.Pod("shop/a").On("n1").Obj()
			y := newEvictionEnv(a)
			moved := fixture.Pod("shop/a").On("n2").Obj()
			again := func() {
				y.cache.SetPod(moved)
				y.evict(t, handle{}, "bank/second", moved)
			}
			if late {
				y.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					y.cache.RemovePodByUID(a.UID) // its own binding failed
					if len(y.deleted) == 0 && len(y.later) == 0 {
						y.evict(t, handle{}, "bank/third", fixture.Pod("shop/b").On("n1").Obj())
						again()
					}
					return false, nil, nil
				})
			}
			y.evict(t, handle{}, "bank/first", a)
			y.runWork()
			if !late {
				again()
				y.runWork()
			}
			if diff := cmp.Diff([]string{"a shop/a"}, y.deleted); diff != "" {
				t.Errorf("deleted, by name and UID (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAVictimCanceledInMemoryIsNotDeletedDuringItsRollback(t *testing.T) {
	y := newEvictionEnv()
	info, err := framework.NewPodInfo(fixture.Pod("shop/a").Obj())
	if err != nil {
		t.Fatal(err)
	}
	assume := func() *v1.Pod {
		t.Helper()
		if err := y.cache.AssumePod(info, "n1"); err != nil {
			t.Fatal(err)
		}
		return y.cache.Pod("shop/a")
	}
	assumed := assume()
	h := handle{waiting: map[types.UID]*waitingPod{"shop/a": {}}}
	y.evict(t, h, "bank/first", assumed)
	y.evict(t, h, "bank/second", assumed)
	y.runWork()
	if stopped := h.waiting["shop/a"].stopped; stopped != 1 || len(y.deleted) > 0 {
		t.Errorf("stopped %d times and deleted %v, want once and not", stopped, y.deleted)
	}

	// It comes again, and may be stopped again.
	y.cache.ForgetPod("shop/a")
	again := handle{waiting: map[types.UID]*waitingPod{"shop/a": {}}}
	y.evict(t, again, "bank/third", assume())
	y.runWork()
	if stopped := again.waiting["shop/a"].stopped; stopped != 1 || len(y.deleted) > 0 {
		t.Errorf("on its second way stopped %d times and deleted %v, want once and not", stopped, y.deleted)
	}
}

func TestEvictingEndsWhenTheLastVictimLeaves(t *testing.T) {
	a, b := fixture.Pod("shop/a").On("n1").Obj(), fixture.Pod("shop/b").On("n1").Obj()
	y := newEvictionEnv(a, b)
	var steps []bool
	note := func() { steps = append(steps, y.Evicting("bank/big")) }
	y.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		note()
		y.cache.RemovePodByUID(types.UID("shop/" + action.(clienttesting.DeleteActionImpl).Name))
		note()
		return false, nil, nil
	})
	note()
	y.evict(t, handle{}, "bank/big", a, b)
	note()
	y.runWork()
	note()
	// None yet; begun; the first goes, is gone; the last goes, is gone; ended.
	if diff := cmp.Diff([]bool{false, true, true, true, true, false, false}, steps); diff != "" {
		t.Errorf("under way, step by step (-want +got):\n%s", diff)
	}
}

func TestAFailureEndsAnEviction(t *testing.T) {
	a, b := fixture.Pod("shop/a").On("n1").Obj(), fixture.Pod("shop/b").On("n1").Obj()
	y := newEvictionEnv(a, b)
	refused := errors.New("the server said no")
	fails := true
	y.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return fails, nil, refused })
	end := y.evict(t, handle{}, "bank/big", a, b)
	y.runWork()
	if !errors.Is(end.Err, refused) || end.Victims != 0 || len(y.deleted) > 0 || y.Evicting("bank/big") {
		t.Errorf("end %+v, deleted %v, want nobody told after the first refusal", *end, y.deleted)
	}
	fails = false
	end = y.evict(t, handle{}, "bank/big", a, b)
	y.runWork()
	if end.Err != nil || end.Victims != 2 {
		t.Errorf("the second try ended %+v, want both told", *end)
	}
}

func TestTerminatingVictimsAreNotEvicted(t *testing.T) {
	a := fixture.Pod("shop/a").On("n1").Terminating().Obj()
	y := newEvictionEnv(a)
	end := y.evict(t, handle{}, "bank/big", a)
	if want := (binding.EvictionResult{DeleteEventExpected: true}); *end != want || y.Evicting("bank/big") {
		t.Errorf("end %+v, want %+v at once", *end, want)
	}
}
