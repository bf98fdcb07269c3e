package scheduler

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// updateNode updates a node so many times.
func (env *testEnv) updateNode(name string, times int) {
	env.t.Helper()
	for i := range times {
		update := fixture.Node(name).Label("update", fmt.Sprint(i)).Obj()
		if _, err := env.cluster.CoreV1().Nodes().Update(env.ctx, update, metav1.UpdateOptions{}); err != nil {
			env.t.Fatal(err)
		}
		if i%50 == 0 {
			synctest.Wait() // the fake watch holds a hundred events
		}
	}
	synctest.Wait()
}

// A leader that has no pod to try keeps a bounded number of changes of the cluster.
func TestAnIdleLeaderAppliesTheChangesOfTheCluster(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		defer env.startLeading()()
		const updates = maxIdleDeltas + 500
		env.updateNode("n1", updates)
		env.create(node("n2"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if kept := env.cache.Deltas(); kept > maxIdleDeltas {
			t.Errorf("after %d updates of a node %d changes are kept, want at most %d", updates, kept, maxIdleDeltas)
		}
		if nodes := env.cache.NodeNames(); len(nodes) != 2 {
			t.Errorf("the snapshot has the nodes %q, want both", nodes)
		}
		env.create(webPod("a"))
		if env.nodeOf("a") == "" {
			t.Error("a pod that comes later is not bound")
		}
	}, node("n1"))
}

// The loop applies the changes itself at its next attempt.
func TestChangesOfTheClusterWaitForABusyLoop(t *testing.T) {
	runTest(t, func(env *testEnv) {
		unblock := make(chan struct{})
		env.a.SetStatus("Filter", func() *fwk.Status { <-unblock; return nil })
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.updateNode("n1", maxIdleDeltas+500)
		env.create(node("n2"))
		time.Sleep(2 * time.Second) // less than a call may take
		synctest.Wait()
		if nodes := env.cache.NodeNames(); len(nodes) != 1 {
			t.Errorf("during an attempt the snapshot has the nodes %q, want n1 alone", nodes)
		}
		close(unblock)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if nodes := env.cache.NodeNames(); len(nodes) != 2 {
			t.Errorf("after the attempt the snapshot has the nodes %q, want both", nodes)
		}
	}, node("n1"))
}

// Each replica applies each change of a profile, also one that makes no attempt.
func TestWithoutAttemptsOldGenerationsLeaveNothingBehind(t *testing.T) {
	for name, leads := range map[string]bool{"a standby": false, "an idle leader": true} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				if leads {
					defer env.startLeading()()
				}
				var old []weak.Pointer[framework.Framework]
				for i := range 100 {
					env.apply(fmt.Sprint("hash-", i))
					generation, ok := env.Profiles().Acquire("p")
					if !ok {
						t.Fatal("the profile does not run")
					}
					old = append(old, weak.Make(generation.Framework))
					generation.Release()
				}
				env.apply("the last one")
				time.Sleep(2 * time.Second)
				synctest.Wait()
				runtime.GC()
				kept := 0
				for _, f := range old {
					if f.Value() != nil {
						kept++
					}
				}
				if kept > 0 {
					t.Errorf("%d of %d old generations are in memory", kept, len(old))
				}
			}, node("n1"))
		})
	}
}

// A standby applies changes earlier than a leader would. A node keeps the number of nodes with its
// images from one attempt to the next, so that an update that counts as an attempt would show.
func TestANewLeaderDecidesAsIfItHadNotStoodBy(t *testing.T) {
	const image = "registry.example/app:1"
	runTest(t, func(env *testEnv) {
		env.apply("one")
		time.Sleep(2 * time.Second)
		env.create(fixture.Node("n2").Image(1<<30, image).Obj())
		time.Sleep(2 * time.Second)
		defer env.startLeading()()
		env.create(webPod("a"))
		if env.nodeOf("a") == "" {
			t.Fatal("the pod is not bound")
		}
		if n := env.cache.Snapshot().Node("n1").ImageStates[image].NumNodes; n != 2 {
			t.Errorf("the first attempt counts %d nodes with the image on n1, want both", n)
		}
	}, fixture.Node("n1").Image(1<<30, image).Obj())
}
