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
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/volumes"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

// world is the room over a fake cluster, in virtual time.
type testEnv struct {
	*volumes.Volumes
	t       *testing.T
	cluster *fakecluster.Cluster
	// returned are the names of what was told to be as it was.
	released []string
}

func runInVirtualTime(t *testing.T, test func(w *testEnv), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		w := &testEnv{t: t, cluster: fakecluster.New(objects...)}
		w.Volumes = volumes.New(volumes.Options{
			Client: w.cluster, Clock: clock.RealClock{},
			Released: func(_, after metav1.Object) { w.released = append(w.released, after.GetName()) },
		})
		factory := informers.NewSharedInformerFactory(w.cluster, 0)
		core := factory.Core().V1()
		if err := w.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
			w.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		synctest.Wait()
		test(w)
		cancel()
		factory.Shutdown()
	})
}

// bound is a copy of a volume, bound to a claim.
func (w *testEnv) boundVolume(name, claim string) *v1.PersistentVolume {
	w.t.Helper()
	is, err := w.Volume(name)
	if err != nil {
		w.t.Fatal(err)
	}
	of, err := w.Claim("default", claim)
	if err != nil {
		w.t.Fatal(err)
	}
	changed, _, err := volume.GetBindVolumeToClaim(is, of)
	if err != nil {
		w.t.Fatal(err)
	}
	return changed
}

// selected is a copy of a claim that is to be provisioned for a node.
func (w *testEnv) claimForNode(name, node string) *v1.PersistentVolumeClaim {
	w.t.Helper()
	is, err := w.Claim("default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	is = is.DeepCopy()
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, volume.AnnSelectedNode, node)
	return is
}

func (w *testEnv) assume(of []*v1.PersistentVolume, claims ...*v1.PersistentVolumeClaim) framework.VolumeHold {
	w.t.Helper()
	hold, err := w.Assume(of, claims)
	if err != nil {
		w.t.Fatal(err)
	}
	return hold
}

// taken says which volumes of class "local" are assumed to be whose.
func (w *testEnv) claimedVolumes() []string {
	w.t.Helper()
	of, err := w.VolumesOfClass("local")
	if err != nil {
		w.t.Fatal(err)
	}
	var taken []string
	for _, v := range of {
		whose := "nobody"
		if v.Spec.ClaimRef != nil {
			whose = v.Spec.ClaimRef.Name
		}
		taken = append(taken, v.Name+" "+whose)
	}
	return taken
}

func (w *testEnv) want(what string, got, want any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want,+got):\n%s", what, diff)
	}
}

func pvs(of ...*v1.PersistentVolume) []*v1.PersistentVolume { return of }

var objects = []runtime.Object{
	fixture.Volume("b", "local").Obj(), fixture.Volume("a", "local").Obj(), fixture.Volume("other", "else").Obj(),
	fixture.Claim("one", "local").Obj(), fixture.Claim("two", "local").Obj(),
}

func TestReadsReturnAssumedObjects(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		w.want("volumes before", w.claimedVolumes(), []string{"a nobody", "b nobody"})
		hold := w.assume(pvs(w.boundVolume("a", "one")), w.claimForNode("two", "n1"))
		w.want("volumes", w.claimedVolumes(), []string{"a one", "b nobody"})
		claim, _ := w.Claim("default", "two")
		w.want("the claim's node", claim.Annotations[volume.AnnSelectedNode], "n1")
		written, _ := w.APIVolume("a")
		if written.Spec.ClaimRef != nil {
			w.t.Error("what is only assumed was taken for written")
		}

		hold.Release()
		w.want("volumes that were released", w.claimedVolumes(), []string{"a nobody", "b nobody"})
		w.want("who was told to be free", w.released, []string{"a", "two"})
		hold.Release()
		w.want("who was told to be free, once more", w.released, []string{"a", "two"})
		w.want("calls", w.cluster.TakeCalls(), []string(nil))
	}, objects...)
}

func TestAssumeIsAllOrNothing(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		a, two := w.boundVolume("a", "one"), w.claimForNode("two", "n1")
		two.ResourceVersion = "7"
		_, err := w.Assume(pvs(a), []*v1.PersistentVolumeClaim{two})
		if want := `"default/two" is out of sync (stored: 105, assume: 7)`; err == nil || err.Error() != want {
			w.t.Errorf("got %v, want %s", err, want)
		}
		w.want("volumes", w.claimedVolumes(), []string{"a nobody", "b nobody"})

		two.Name = "three"
		if _, err := w.Assume(pvs(a), []*v1.PersistentVolumeClaim{two}); !apierrors.IsNotFound(err) {
			w.t.Errorf("a claim that is not there: got %v", err)
		}
		w.want("volumes", w.claimedVolumes(), []string{"a nobody", "b nobody"})
	}, objects...)
}

// A pod that gives up late must not take from the next what it gave back long
// ago.
func TestReleaseKeepsOtherPodsAssumptions(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		first := w.assume(pvs(w.boundVolume("a", "one")))
		first.Release()
		w.assume(pvs(w.boundVolume("a", "two")))
		first.Release()
		w.want("volumes", w.claimedVolumes(), []string{"a two", "b nobody"})
	}, objects...)
}

func TestWrittenObjectsStayAssumed(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		hold := w.assume(pvs(w.boundVolume("a", "one")), w.claimForNode("two", "n1"))
		if err := hold.Write(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		hold.Release()
		w.want("volumes, before anything is heard of it", w.claimedVolumes(), []string{"a one", "b nobody"})
		w.want("calls", w.cluster.TakeCalls(), []string{"volume a", "claim two"})
		synctest.Wait()
		w.want("volumes, afterwards", w.claimedVolumes(), []string{"a one", "b nobody"})
		written, _ := w.APIVolume("a")
		w.want("the version", written.ResourceVersion, hold.Volume("a").ResourceVersion)
		w.want("who bound it", written.Annotations[volume.AnnBoundByController], "yes")
		claim, _ := w.APIClaim("default", "two")
		w.want("the claim's version", claim.ResourceVersion, hold.Claim("default", "two").ResourceVersion)
		w.want("the claim's node", claim.Annotations[volume.AnnSelectedNode], "n1")
		w.want("who was told to be free", w.released, []string(nil))
	}, objects...)
}

func TestConcurrentWritesConflict(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		one, two := w.boundVolume("a", "one"), w.boundVolume("a", "two")
		first := w.assume(pvs(one))
		// Nothing in the house does this; another scheduler may.
		second := w.assume(pvs(two))
		if err := first.Write(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		if err := second.Write(w.t.Context()); !apierrors.IsConflict(err) {
			w.t.Errorf("the second write: got %v, want a conflict", err)
		}
		w.want("volumes", w.cluster.BoundVolumes(), map[string]string{"a": "default/one"})
	}, objects...)
}

func TestWriteStopsAtTheFirstError(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		hold := w.assume(pvs(w.boundVolume("a", "one"), w.boundVolume("b", "two")))
		refused := errors.New("refused")
		w.cluster.Inject(fakecluster.Fault{Verb: "volume"}, fakecluster.Fault{Verb: "volume", Err: refused})
		if err := hold.Write(w.t.Context()); !errors.Is(err, refused) {
			w.t.Errorf("got %v", err)
		}
		synctest.Wait()
		hold.Release()
		w.want("volumes", w.claimedVolumes(), []string{"a one", "b nobody"})
		w.want("who was told to be free", w.released, []string{"b"})
	}, objects...)
}

func TestANewerAPIObjectReplacesTheAssumption(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		hold := w.assume(pvs(w.boundVolume("a", "one")))
		two := fixture.Claim("two", "local").Obj()
		w.cluster.Replace(fixture.Volume("a", "local").BoundTo(two).Obj())
		synctest.Wait()
		w.want("volumes", w.claimedVolumes(), []string{"a two", "b nobody"})
		hold.Release()
		w.want("who was told to be free", w.released, []string(nil))
	}, objects...)
}

func TestAwait(t *testing.T) {
	sad := errors.New("sad")
	for name, c := range map[string]struct {
		limit time.Duration
		// done is asked for the nth time.
		done func(w *testEnv, n int) (bool, error)
		// cancel is when the caller loses interest; 0: never.
		cancel time.Duration
		err    error
		took   time.Duration
	}{
		"what is done already takes no time": {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return true, nil }},
		"an error ends it":                   {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return false, sad }, err: sad},
		"it is asked each second":            {limit: time.Minute, done: func(_ *testEnv, n int) (bool, error) { return n == 4, nil }, took: 3 * time.Second},
		"a change of the claim is heard of at once": {limit: time.Minute, done: func(w *testEnv, n int) (bool, error) {
			if n == 1 {
				go w.cluster.Replace(fixture.Claim("one", "local").Annotation("some", "thing").Obj())
			}
			return n == 2, nil
		}},
		"so is a change of its volume": {limit: time.Minute, done: func(w *testEnv, n int) (bool, error) {
			if n == 1 {
				go w.cluster.Replace(fixture.Volume("a", "local").BoundTo(fixture.Claim("one", "local").Obj()).Obj())
			}
			return n == 2, nil
		}},
		"a change of another claim is not": {limit: time.Minute, took: time.Second, done: func(w *testEnv, n int) (bool, error) {
			if n == 1 {
				go w.cluster.Replace(fixture.Claim("two", "local").Annotation("some", "thing").Obj())
			}
			return n == 2, nil
		}},
		"it has a limit":       {limit: 90 * time.Second, done: func(*testEnv, int) (bool, error) { return false, nil }, err: context.DeadlineExceeded, took: 90 * time.Second},
		"it ends with the pod": {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return false, nil }, cancel: 5 * time.Second, err: context.Canceled, took: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				ctx, cancel := context.WithCancel(w.t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				n, begin := 0, time.Now()
				err := w.Await(ctx, c.limit, []*v1.PersistentVolumeClaim{fixture.Claim("one", "local").Obj()}, func() (bool, error) {
					n++
					return c.done(w, n)
				})
				if !errors.Is(err, c.err) {
					w.t.Errorf("got %v, want %v", err, c.err)
				}
				w.want("it took", time.Since(begin), c.took)
			}, objects...)
		})
	}
}

func TestReadOnlyVolumesRefuseToAssume(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		trial := w.ReadOnly()
		if _, err := trial.Assume(pvs(w.boundVolume("a", "one")), nil); err == nil {
			w.t.Error("a trial assumed a volume")
		}
		w.assume(pvs(w.boundVolume("a", "one")))
		seen, err := trial.Volume("a")
		if err != nil || seen.Spec.ClaimRef == nil {
			t.Errorf("a trial does not see what is assumed: %v, %v", seen, err)
		}
	}, objects...)
}

func TestVolumesAreEmptyWithoutInformers(t *testing.T) {
	room := volumes.New(volumes.Options{Clock: clock.RealClock{}})
	_, volumeErr := room.Volume("a")
	_, claimErr := room.APIClaim("default", "one")
	of, err := room.VolumesOfClass("local")
	if !apierrors.IsNotFound(volumeErr) || !apierrors.IsNotFound(claimErr) || err != nil || len(of) > 0 {
		t.Errorf("got %v, %v, %v, %v", volumeErr, claimErr, of, err)
	}
}

// Whatever pods do, in whatever order: no two of them think that they have the
// same volume, and what nobody has is free.
func TestNoVolumeIsAssumedForTwoClaims(t *testing.T) {
	many := []runtime.Object{}
	for i := range 6 {
		many = append(many, fixture.Volume(fmt.Sprint("v", i), "local").Obj(), fixture.Claim(fmt.Sprint("c", i), "local").Obj())
	}
	for seed := range 60 {
		runInVirtualTime(t, func(w *testEnv) {
			holds := map[string]framework.VolumeHold{}
			has := map[string]string{}
			for step := range 40 {
				dice := (seed*40+step)*7919%104729 + step
				name, claim := fmt.Sprint("v", dice%6), fmt.Sprint("c", dice/6%6)
				switch is, err := w.Volume(name); {
				case err != nil:
					w.t.Fatal(err)
				case is.Spec.ClaimRef == nil && holds[claim] == nil:
					holds[claim], has[name] = w.assume(pvs(w.boundVolume(name, claim))), claim
				case holds[claim] != nil && dice%3 == 0:
					holds[claim].Release()
					for name, whose := range has {
						if whose == claim {
							delete(has, name)
						}
					}
					delete(holds, claim)
				case holds[claim] != nil && dice%3 == 1:
					if err := holds[claim].Write(w.t.Context()); err != nil && !apierrors.IsConflict(err) {
						w.t.Fatal(err)
					}
					if dice%2 == 0 {
						synctest.Wait()
					}
					// It is its claim's for good.
					holds[claim] = boundHold{}
				}
				var want []string
				for i := range 6 {
					whose := "nobody"
					if claim, ok := has[fmt.Sprint("v", i)]; ok {
						whose = claim
					}
					want = append(want, fmt.Sprint("v", i, " ", whose))
				}
				if got := w.claimedVolumes(); !slices.Equal(got, want) {
					w.t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, want)
				}
			}
		}, many...)
	}
}

// done is a hold of a pod that is bound.
type boundHold struct{ framework.VolumeHold }

func (boundHold) Release()                    {}
func (boundHold) Write(context.Context) error { return nil }
