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
	"github.com/berthdev/berth/test/support/fixture"
)

// handle is a Handle with pods that wait on Permit, and nothing else.
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

// waitingPod is a pod on Permit that can be rejected once.
type waitingPod struct {
	fwk.WaitingPod
	stopped int
}

func (w *waitingPod) Preempt(string, string) bool {
	w.stopped++
	return w.stopped == 1
}

// evictionEnv is a Binding whose background work runs in runWork.
type evictionEnv struct {
	*binding.Binding
	cache   *cache.Cache
	client  *fake.Clientset
	deleted []string
	pending []func()
}

func newEvictionEnv(pods ...*v1.Pod) *evictionEnv {
	env := &evictionEnv{cache: cache.New()}
	var objects []runtime.Object
	for _, pod := range pods {
		objects = append(objects, pod)
		env.cache.SetPod(pod)
	}
	env.client = fake.NewClientset(objects...)
	env.client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		request := a.(clienttesting.DeleteActionImpl)
		env.deleted = append(env.deleted, request.Name+" "+string(*request.DeleteOptions.Preconditions.UID))
		return true, nil, nil
	})
	env.Binding = binding.New(binding.Options{
		Client: env.client, Cache: env.cache, Clock: clock.RealClock{}, Go: func(work func()) { env.pending = append(env.pending, work) },
	})
	return env
}

// evict begins to carry out a plan. The returned result is filled in at the end.
func (env *evictionEnv) evict(t *testing.T, h handle, preemptor string, victims ...*v1.Pod) *binding.EvictionResult {
	end := &binding.EvictionResult{Victims: -1}
	env.Evict(t.Context(), h, &framework.PreemptionPlan{
		Plugin: "DefaultPreemption", Node: "n1", Victims: victims, Preemptor: fixture.Pod(preemptor).Priority(9).Obj(),
	}, func(e binding.EvictionResult) { *end = e })
	return end
}

func (env *evictionEnv) runWork() {
	for len(env.pending) > 0 {
		work := env.pending[0]
		env.pending = env.pending[1:]
		work()
	}
}

func TestAVictimIsEvictedOnce(t *testing.T) {
	a, b := fixture.Pod("shop/a").On("n1").Obj(), fixture.Pod("shop/b").On("n1").Obj()
	env := newEvictionEnv(a, b)
	first, second := env.evict(t, handle{}, "bank/first", a), env.evict(t, handle{}, "bank/second", a, b)
	env.runWork()
	if diff := cmp.Diff([]string{"a shop/a", "b shop/b"}, env.deleted); diff != "" {
		t.Errorf("deleted, by name and UID (-want +got):\n%s", diff)
	}
	want := binding.EvictionResult{Victims: 1, DeleteEventExpected: true}
	if *first != want || *second != want {
		t.Errorf("results %+v and %+v, want %+v twice: each evicted one victim", *first, *second, want)
	}
}

// The cluster is unchanged meanwhile: another attempt of the preemptor would choose
// other victims.
// A victim whose Binding fails before its turn comes is pending again. While its group is decided,
// it may count on the same node.
func TestAVictimThatIsPendingAgainIsNotDeleted(t *testing.T) {
	for name, again := range map[string]func(env *evictionEnv, victim *framework.PodInfo) error{
		"it counts for other pods": func(env *evictionEnv, victim *framework.PodInfo) error { return env.cache.CountPod(victim, "n1") },
		"it has no node":           func(*evictionEnv, *framework.PodInfo) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			victim, _ := framework.NewPodInfo(fixture.Pod("shop/a").Obj())
			env := newEvictionEnv(victim.GetPod())
			env.cache.RemovePodByUID("shop/a") // it has no node in the API server
			if err := env.cache.AssumePod(victim, "n1"); err != nil {
				t.Fatal(err)
			}
			result := env.evict(t, handle{}, "bank/p", victim.WithNode("n1").GetPod())
			env.cache.ForgetPod("shop/a")
			if err := again(env, victim); err != nil {
				t.Fatal(err)
			}
			env.runWork()
			if len(env.deleted) > 0 || *result != (binding.EvictionResult{}) {
				t.Errorf("deleted %q, result %+v, want none, and that no event of a deletion is expected", env.deleted, *result)
			}
		})
	}
}

func TestAPreemptorWaitsWhileAnotherPlanEvictsItsVictim(t *testing.T) {
	refused := error(apierrors.NewForbidden(v1.Resource("pods"), "a", errors.New("the server said no")))
	for name, c := range map[string]struct {
		answers       []error
		first, second binding.EvictionResult
	}{
		"and has its resources when that succeeds": {
			[]error{nil}, binding.EvictionResult{Victims: 1, DeleteEventExpected: true}, binding.EvictionResult{DeleteEventExpected: true},
		},
		"and evicts it itself when that fails": {
			[]error{refused, nil}, binding.EvictionResult{Err: refused}, binding.EvictionResult{Victims: 1, DeleteEventExpected: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := fixture.Pod("shop/a").On("n1").Obj()
			env := newEvictionEnv(a)
			asked, waits := 0, false
			var second *binding.EvictionResult
			env.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if asked++; asked == 1 {
					second = env.evict(t, handle{}, "bank/second", a)
					env.runWork()
					waits = env.Evicting("bank/second") && second.Victims == -1
				}
				err := c.answers[asked-1]
				return err != nil, nil, err
			})
			first := env.evict(t, handle{}, "bank/first", a)
			env.runWork()
			if !waits {
				t.Error("the second preemptor does not wait")
			}
			if diff := cmp.Diff([]binding.EvictionResult{c.first, c.second}, []binding.EvictionResult{*first, *second}, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
			if asked != len(c.answers) || env.Evicting("bank/first") || env.Evicting("bank/second") {
				t.Errorf("evicted %d times, want %d, and no preemptor waiting at the end", asked, len(c.answers))
			}
		})
	}
}

// The deletion takes effect on whatever node the victim is, and the informer may not
// have delivered it yet.
func TestAVictimThatAnotherSchedulerBindsIsNotEvictedAgain(t *testing.T) {
	for name, late := range map[string]bool{"during its eviction": true, "after its eviction": false} {
		t.Run(name, func(t *testing.T) {
			a := fixture.Pod("shop/a").On("n1").Obj()
			env := newEvictionEnv(a)
			moved := fixture.Pod("shop/a").On("n2").Obj()
			again := func() {
				env.cache.SetPod(moved)
				env.evict(t, handle{}, "bank/second", moved)
			}
			if late {
				env.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					env.cache.RemovePodByUID(a.UID) // its own binding failed
					if len(env.deleted) == 0 && len(env.pending) == 0 {
						env.evict(t, handle{}, "bank/third", fixture.Pod("shop/b").On("n1").Obj())
						again()
					}
					return false, nil, nil
				})
			}
			env.evict(t, handle{}, "bank/first", a)
			env.runWork()
			if !late {
				again()
				env.runWork()
			}
			if diff := cmp.Diff([]string{"a shop/a"}, env.deleted); diff != "" {
				t.Errorf("deleted, by name and UID (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAVictimCanceledInMemoryIsNotDeletedDuringItsRollback(t *testing.T) {
	env := newEvictionEnv()
	info, err := framework.NewPodInfo(fixture.Pod("shop/a").Obj())
	if err != nil {
		t.Fatal(err)
	}
	assume := func() *v1.Pod {
		t.Helper()
		if err := env.cache.AssumePod(info, "n1"); err != nil {
			t.Fatal(err)
		}
		return env.cache.Pod("shop/a")
	}
	assumed := assume()
	h := handle{waiting: map[types.UID]*waitingPod{"shop/a": {}}}
	env.evict(t, h, "bank/first", assumed)
	env.evict(t, h, "bank/second", assumed)
	env.runWork()
	if stopped := h.waiting["shop/a"].stopped; stopped != 1 || len(env.deleted) > 0 {
		t.Errorf("stopped %d times and deleted %v, want once and not", stopped, env.deleted)
	}

	// The pod is assumed again, and may be stopped again.
	env.cache.ForgetPod("shop/a")
	again := handle{waiting: map[types.UID]*waitingPod{"shop/a": {}}}
	env.evict(t, again, "bank/third", assume())
	env.runWork()
	if stopped := again.waiting["shop/a"].stopped; stopped != 1 || len(env.deleted) > 0 {
		t.Errorf("in its second binding cycle stopped %d times and deleted %v, want once and not", stopped, env.deleted)
	}
}

func TestEvictingEndsWhenTheLastVictimLeaves(t *testing.T) {
	a, b := fixture.Pod("shop/a").On("n1").Obj(), fixture.Pod("shop/b").On("n1").Obj()
	env := newEvictionEnv(a, b)
	var steps []bool
	note := func() { steps = append(steps, env.Evicting("bank/big")) }
	env.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		note()
		env.cache.RemovePodByUID(types.UID("shop/" + action.(clienttesting.DeleteActionImpl).Name))
		note()
		return false, nil, nil
	})
	note()
	env.evict(t, handle{}, "bank/big", a, b)
	note()
	env.runWork()
	note()
	// Not begun; begun; the first victim's deletion, gone; the last one's deletion,
	// gone; ended.
	if diff := cmp.Diff([]bool{false, true, true, true, true, false, false}, steps); diff != "" {
		t.Errorf("Evicting, step by step (-want +got):\n%s", diff)
	}
}

func TestAFailureEndsAnEviction(t *testing.T) {
	a, b := fixture.Pod("shop/a").On("n1").Obj(), fixture.Pod("shop/b").On("n1").Obj()
	env := newEvictionEnv(a, b)
	refused := errors.New("the server said no")
	fails := true
	env.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return fails, nil, refused })
	end := env.evict(t, handle{}, "bank/big", a, b)
	env.runWork()
	if !errors.Is(end.Err, refused) || end.Victims != 0 || len(env.deleted) > 0 || env.Evicting("bank/big") {
		t.Errorf("result %+v, deleted %v, want no eviction after the first failure", *end, env.deleted)
	}
	fails = false
	end = env.evict(t, handle{}, "bank/big", a, b)
	env.runWork()
	if end.Err != nil || end.Victims != 2 {
		t.Errorf("the second try: %+v, want both victims evicted", *end)
	}
}

func TestTerminatingVictimsAreNotEvicted(t *testing.T) {
	a := fixture.Pod("shop/a").On("n1").Terminating().Obj()
	env := newEvictionEnv(a)
	end := env.evict(t, handle{}, "bank/big", a)
	if want := (binding.EvictionResult{DeleteEventExpected: true}); *end != want || env.Evicting("bank/big") {
		t.Errorf("result %+v, want %+v at once", *end, want)
	}
}
