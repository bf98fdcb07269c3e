package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/volumes"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is Volumes over a fake cluster, in virtual time.
type testEnv struct {
	*volumes.Volumes
	t       *testing.T
	cluster *fakecluster.Cluster
	// released are the names of the objects for which the queue got an event.
	released []string
}

func runInVirtualTime(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		env := &testEnv{t: t, cluster: fakecluster.New(objects...)}
		env.Volumes = volumes.New(volumes.Options{
			Client: env.cluster, Clock: clock.RealClock{}, Queue: env,
		})
		factory := informers.NewSharedInformerFactory(env.cluster, 0)
		core := factory.Core().V1()
		if err := env.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
			env.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		synctest.Wait()
		test(env)
		cancel()
		factory.Shutdown()
	})
}

// Event implements volumes.EventQueue.
func (env *testEnv) Event(_ context.Context, _ fwk.ClusterEvent, _, after any, _ func(*v1.Pod) bool) {
	env.released = append(env.released, after.(metav1.Object).GetName())
}

// boundVolume returns a copy of a volume, bound to a claim.
func (env *testEnv) boundVolume(name, claim string) *v1.PersistentVolume {
	env.t.Helper()
	pv, err := env.Volume(name)
	if err != nil {
		env.t.Fatal(err)
	}
	pvc, err := env.Claim("default", claim)
	if err != nil {
		env.t.Fatal(err)
	}
	changed, _, err := volume.GetBindVolumeToClaim(pv, pvc)
	if err != nil {
		env.t.Fatal(err)
	}
	return changed
}

// claimForNode returns a copy of a claim with a selected node.
func (env *testEnv) claimForNode(name, node string) *v1.PersistentVolumeClaim {
	env.t.Helper()
	claim, err := env.Claim("default", name)
	if err != nil {
		env.t.Fatal(err)
	}
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, node)
	return claim
}

func (env *testEnv) assume(pvs []*v1.PersistentVolume, claims ...*v1.PersistentVolumeClaim) framework.VolumeHold {
	env.t.Helper()
	hold, err := env.Assume(pvs, claims)
	if err != nil {
		env.t.Fatal(err)
	}
	return hold
}

// claimedVolumes lists the volumes of class "local" with the claim that they are
// assumed to be bound to, "-" for none.
func (env *testEnv) claimedVolumes() []string {
	env.t.Helper()
	pvs, err := env.VolumesOfClass("local")
	if err != nil {
		env.t.Fatal(err)
	}
	var taken []string
	for _, v := range pvs {
		claim := "-"
		if v.Spec.ClaimRef != nil {
			claim = v.Spec.ClaimRef.Name
		}
		taken = append(taken, v.Name+" "+claim)
	}
	return taken
}

func (env *testEnv) want(what string, got, want any) {
	env.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		env.t.Errorf("%s (-want,+got):\n%s", what, diff)
	}
}

func pvs(all ...*v1.PersistentVolume) []*v1.PersistentVolume { return all }

var objects = []runtime.Object{
	fixture.Volume("b", "local").Obj(), fixture.Volume("a", "local").Obj(), fixture.Volume("other", "else").Obj(),
	fixture.Claim("one", "local").Obj(), fixture.Claim("two", "local").Obj(),
}

func TestReadsReturnAssumedObjects(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.want("volumes before", env.claimedVolumes(), []string{"a -", "b -"})
		hold := env.assume(pvs(env.boundVolume("a", "one")), env.claimForNode("two", "n1"))
		env.want("volumes", env.claimedVolumes(), []string{"a one", "b -"})
		claim, _ := env.Claim("default", "two")
		env.want("the claim's node", claim.Annotations[volume.AnnSelectedNode], "n1")
		written, _ := env.APIVolume("a")
		if written.Spec.ClaimRef != nil {
			env.t.Error("APIVolume returns an assumed volume")
		}

		hold.Release(true)
		env.want("volumes that were released", env.claimedVolumes(), []string{"a -", "b -"})
		env.want("released", env.released, []string{"a", "two"})
		hold.Release(true)
		env.want("released, after a second call", env.released, []string{"a", "two"})
		env.want("calls", env.cluster.TakeCalls(), []string(nil))
	}, objects...)
}

// What no other attempt saw has refused no pod.
func TestAReleaseThatNobodySawIsNoEvent(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		hold := env.assume(pvs(env.boundVolume("a", "one")), env.claimForNode("two", "n1"))
		hold.Release(false)
		env.want("volumes", env.claimedVolumes(), []string{"a -", "b -"})
		env.want("released", env.released, []string(nil))
	}, objects...)
}

func TestAssumeIsAllOrNothing(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		a, two := env.boundVolume("a", "one"), env.claimForNode("two", "n1")
		two.ResourceVersion = "7"
		_, err := env.Assume(pvs(a), []*v1.PersistentVolumeClaim{two})
		if want := `"default/two" is out of sync (stored: 105, assume: 7)`; err == nil || err.Error() != want {
			env.t.Errorf("got %v, want %s", err, want)
		}
		env.want("volumes", env.claimedVolumes(), []string{"a -", "b -"})

		two.Name = "three"
		if _, err := env.Assume(pvs(a), []*v1.PersistentVolumeClaim{two}); !apierrors.IsNotFound(err) {
			env.t.Errorf("a claim that does not exist: got %v", err)
		}
		env.want("volumes", env.claimedVolumes(), []string{"a -", "b -"})
	}, objects...)
}

// A second Release must not end the assumption of another pod.
func TestReleaseKeepsOtherPodsAssumptions(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		first := env.assume(pvs(env.boundVolume("a", "one")))
		first.Release(true)
		env.assume(pvs(env.boundVolume("a", "two")))
		first.Release(true)
		env.want("volumes", env.claimedVolumes(), []string{"a two", "b -"})
	}, objects...)
}

func TestWrittenObjectsStayAssumed(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		hold := env.assume(pvs(env.boundVolume("a", "one")), env.claimForNode("two", "n1"))
		if err := hold.Write(env.t.Context()); err != nil {
			env.t.Fatal(err)
		}
		hold.Release(true)
		env.want("volumes before the informer delivers the writes", env.claimedVolumes(), []string{"a one", "b -"})
		env.want("calls", env.cluster.TakeCalls(), []string{"volume a", "claim two"})
		synctest.Wait()
		env.want("volumes after the informer delivered the writes", env.claimedVolumes(), []string{"a one", "b -"})
		written, _ := env.APIVolume("a")
		env.want("the version", written.ResourceVersion, hold.Volume("a").ResourceVersion)
		env.want("the annotation of the binder", written.Annotations[volume.AnnBoundByController], "yes")
		claim, _ := env.APIClaim("default", "two")
		env.want("the claim's version", claim.ResourceVersion, hold.Claim("default", "two").ResourceVersion)
		env.want("the claim's node", claim.Annotations[volume.AnnSelectedNode], "n1")
		env.want("released", env.released, []string(nil))
	}, objects...)
}

func TestConcurrentWritesConflict(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		one, two := env.boundVolume("a", "one"), env.boundVolume("a", "two")
		first := env.assume(pvs(one))
		// Another scheduler may do this.
		second := env.assume(pvs(two))
		if err := first.Write(env.t.Context()); err != nil {
			env.t.Fatal(err)
		}
		if err := second.Write(env.t.Context()); !apierrors.IsConflict(err) {
			env.t.Errorf("the second write: got %v, want a conflict", err)
		}
		env.want("volumes", env.cluster.BoundVolumes(), map[string]string{"a": "default/one"})
	}, objects...)
}

func TestWriteStopsAtTheFirstError(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		hold := env.assume(pvs(env.boundVolume("a", "one"), env.boundVolume("b", "two")))
		refused := errors.New("refused")
		env.cluster.Inject(fakecluster.Fault{Verb: "volume"}, fakecluster.Fault{Verb: "volume", Err: refused})
		if err := hold.Write(env.t.Context()); !errors.Is(err, refused) {
			env.t.Errorf("got %v", err)
		}
		synctest.Wait()
		hold.Release(true)
		env.want("volumes", env.claimedVolumes(), []string{"a one", "b -"})
		env.want("released", env.released, []string{"b"})
	}, objects...)
}

func TestANewerAPIObjectReplacesTheAssumption(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		hold := env.assume(pvs(env.boundVolume("a", "one")))
		two := fixture.Claim("two", "local").Obj()
		env.cluster.Replace(fixture.Volume("a", "local").BoundTo(two).Obj())
		synctest.Wait()
		env.want("volumes", env.claimedVolumes(), []string{"a two", "b -"})
		hold.Release(true)
		env.want("released", env.released, []string(nil))
	}, objects...)
}

func TestAwait(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		limit time.Duration
		// done is called for the nth time.
		done func(env *testEnv, n int) (bool, error)
		// cancel is when the caller's context is cancelled; 0 for never.
		cancel time.Duration
		err    error
		took   time.Duration
	}{
		"a condition that holds takes no time": {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return true, nil }},
		"an error ends the wait":               {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return false, broken }, err: broken},
		"done is called each second":           {limit: time.Minute, done: func(_ *testEnv, n int) (bool, error) { return n == 4, nil }, took: 3 * time.Second},
		"a change of the claim wakes at once": {limit: time.Minute, done: func(env *testEnv, n int) (bool, error) {
			if n == 1 {
				go env.cluster.Replace(fixture.Claim("one", "local").Annotation("some", "thing").Obj())
			}
			return n == 2, nil
		}},
		"a change of its volume wakes at once": {limit: time.Minute, done: func(env *testEnv, n int) (bool, error) {
			if n == 1 {
				go env.cluster.Replace(fixture.Volume("a", "local").BoundTo(fixture.Claim("one", "local").Obj()).Obj())
			}
			return n == 2, nil
		}},
		"a change of another claim does not wake": {limit: time.Minute, took: time.Second, done: func(env *testEnv, n int) (bool, error) {
			if n == 1 {
				go env.cluster.Replace(fixture.Claim("two", "local").Annotation("some", "thing").Obj())
			}
			return n == 2, nil
		}},
		"the wait has a limit":           {limit: 90 * time.Second, done: func(*testEnv, int) (bool, error) { return false, nil }, err: context.DeadlineExceeded, took: 90 * time.Second},
		"the wait ends with the context": {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return false, nil }, cancel: 5 * time.Second, err: context.Canceled, took: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				ctx, cancel := context.WithCancel(env.t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				n, begin := 0, time.Now()
				err := env.Await(ctx, c.limit, []*v1.PersistentVolumeClaim{fixture.Claim("one", "local").Obj()}, func() (bool, error) {
					n++
					return c.done(env, n)
				})
				if !errors.Is(err, c.err) {
					env.t.Errorf("got %v, want %v", err, c.err)
				}
				env.want("it took", time.Since(begin), c.took)
			}, objects...)
		})
	}
}

func TestReadOnlyVolumesRefuseToAssume(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		readOnly := env.ReadOnly()
		if _, err := readOnly.Assume(pvs(env.boundVolume("a", "one")), nil); err == nil {
			env.t.Error("read-only Volumes assumed a volume")
		}
		env.assume(pvs(env.boundVolume("a", "one")))
		seen, err := readOnly.Volume("a")
		if err != nil || seen.Spec.ClaimRef == nil {
			t.Errorf("read-only Volumes do not show the assumption: %v, %v", seen, err)
		}
	}, objects...)
}

func TestVolumesAreEmptyWithoutInformers(t *testing.T) {
	empty := volumes.New(volumes.Options{Clock: clock.RealClock{}})
	_, volumeErr := empty.Volume("a")
	_, claimErr := empty.APIClaim("default", "one")
	pvs, err := empty.VolumesOfClass("local")
	if !apierrors.IsNotFound(volumeErr) || !apierrors.IsNotFound(claimErr) || err != nil || len(pvs) > 0 {
		t.Errorf("got %v, %v, %v, %v", volumeErr, claimErr, pvs, err)
	}
}

// In random histories no volume is assumed for two claims, and a volume without a
// holder is unclaimed.
func TestNoVolumeIsAssumedForTwoClaims(t *testing.T) {
	many := []runtime.Object{}
	for i := range 6 {
		many = append(many, fixture.Volume(fmt.Sprint("v", i), "local").Obj(), fixture.Claim(fmt.Sprint("c", i), "local").Obj())
	}
	for seed := range 60 {
		runInVirtualTime(t, func(env *testEnv) {
			holds := map[string]framework.VolumeHold{}
			holders := map[string]string{}
			for step := range 40 {
				dice := (seed*40+step)*7919%104729 + step
				name, claim := fmt.Sprint("v", dice%6), fmt.Sprint("c", dice/6%6)
				switch pv, err := env.Volume(name); {
				case err != nil:
					env.t.Fatal(err)
				case pv.Spec.ClaimRef == nil && holds[claim] == nil:
					holds[claim], holders[name] = env.assume(pvs(env.boundVolume(name, claim))), claim
				case holds[claim] != nil && dice%3 == 0:
					holds[claim].Release(true)
					for name, holder := range holders {
						if holder == claim {
							delete(holders, name)
						}
					}
					delete(holds, claim)
				case holds[claim] != nil && dice%3 == 1:
					if err := holds[claim].Write(env.t.Context()); err != nil && !apierrors.IsConflict(err) {
						env.t.Fatal(err)
					}
					if dice%2 == 0 {
						synctest.Wait()
					}
					// It is bound to its claim from now on.
					holds[claim] = boundHold{}
				}
				var want []string
				for i := range 6 {
					holder := "-"
					if claim, ok := holders[fmt.Sprint("v", i)]; ok {
						holder = claim
					}
					want = append(want, fmt.Sprint("v", i, " ", holder))
				}
				if got := env.claimedVolumes(); !slices.Equal(got, want) {
					env.t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, want)
				}
			}
		}, many...)
	}
}

// boundHold is the hold of a pod that is bound.
type boundHold struct{ framework.VolumeHold }

func (boundHold) Release(bool)                {}
func (boundHold) Write(context.Context) error { return nil }
