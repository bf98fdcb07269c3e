package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// profile schedules the pods of the traffic.
	profile = "faults"
	// nodes, podsPerNode and nodeCPU are what there is: pods request 100m to 400m, so that a
	// node is full by its CPU or by its pods.
	nodes, podsPerNode, nodeCPU = 4, 8, "2"
	// alive is how many pods there are at most: more than fit.
	alive = 44
	// fewestBound is the number of bound pods below which none is deleted.
	fewestBound = 16
	// podsPerSecond is how many pods are deleted, and created, per second.
	podsPerSecond = 12
	// changeInterval is the time between two changes of the profile.
	changeInterval = 1500 * time.Millisecond
	// requestTimeout is how long one request of the traffic may take: it may meet a fault.
	requestTimeout = 3 * time.Second
)

// traffic creates and deletes pods and changes their profile, as users do, until stop. Requests
// that a fault refuses are left.
type traffic struct {
	env *testEnv
	// checker records what the traffic and the managers do.
	checker *checker.Checker
	// cancel ends the pods, and cancelChanges the changes of the profile.
	cancel, cancelChanges context.CancelFunc
	done, changesDone     sync.WaitGroup
	// pods is the number of the next pod; there are about existing.
	pods, existing int
	deleted        map[types.NamespacedName]bool
	changes        atomic.Int32
}

// startTraffic creates nodes and the profile, and starts the traffic until the spec ends. c is
// the checker of the spec.
func (e *testEnv) startTraffic(ctx context.Context, c *checker.Checker) *traffic {
	GinkgoHelper()
	Expect(e.cp.Nodes(ctx, nodes, controlplane.NodeOptions{Prefix: "traffic", CPU: nodeCPU, Pods: podsPerNode})).To(Succeed())
	DeferCleanup(e.deleteAll)
	t := &traffic{env: e, checker: c, deleted: map[types.NamespacedName]bool{}}
	Expect(t.change(ctx)).To(Succeed())
	_, err := operator.UntilProgrammed(ctx, e.cp, profile)
	Expect(err).NotTo(HaveOccurred())
	var pods, changes context.Context
	pods, t.cancel = context.WithCancel(context.Background())
	changes, t.cancelChanges = context.WithCancel(context.Background())
	DeferCleanup(t.stop)
	t.done.Go(func() { t.runPods(pods) })
	t.changesDone.Go(func() { t.runChanges(changes) })
	return t
}

// deleteAll deletes what the traffic has created.
func (e *testEnv) deleteAll(ctx SpecContext) {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	Expect(e.client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{})).To(Succeed())
	Expect(e.client.CoreV1().Nodes().DeleteCollection(ctx, now, metav1.ListOptions{})).To(Succeed())
	e.admin.Remove(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: profile}})
}

// stop ends the traffic; the pods stay.
func (t *traffic) stop() {
	t.stopChanges()
	t.cancel()
	t.done.Wait()
}

// stopChanges ends the changes of the profile.
func (t *traffic) stopChanges() {
	t.cancelChanges()
	t.changesDone.Wait()
}

// runPods deletes the oldest pods and creates others, until ctx ends.
func (t *traffic) runPods(ctx context.Context) {
	every(ctx, time.Second/podsPerSecond, func() {
		if t.existing >= alive {
			t.deleteOldest(ctx)
		}
		if t.existing < alive {
			t.create(ctx)
		}
	})
}

// every calls do again and again, at most once in an interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// create creates a pod with the fields that users write.
func (t *traffic) create(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	i := t.pods
	t.pods++
	pod := podOf(profile, fmt.Sprintf("pod-%d", i)).Requests("cpu", fmt.Sprintf("%dm", 100+100*(i%4)), "memory", "64Mi").
		Label("app", fmt.Sprintf("app-%d", i%3)).
		Spread(corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", i%3)}},
		}).Valid()
	if _, err := t.env.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err == nil {
		t.existing++
	}
}

// podOf starts a pod of a profile.
func podOf(profile, name string) *fixture.PodBuilder {
	return fixture.Pod(namespace + "/" + name).SchedulerName(profile)
}

// deleteOldest deletes the pod that was bound first, where enough are bound.
func (t *traffic) deleteOldest(ctx context.Context) {
	bound := slices.DeleteFunc(t.checker.Recorder().BoundPods(), func(n types.NamespacedName) bool { return t.deleted[n] })
	if len(bound) <= fewestBound {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	first := bound[0]
	err := t.env.client.CoreV1().Pods(first.Namespace).Delete(ctx, first.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if err == nil {
		t.deleted[first] = true
		t.existing--
	}
}

// runChanges changes the profile again and again, until ctx ends.
func (t *traffic) runChanges(ctx context.Context) {
	every(ctx, changeInterval, func() {
		_ = t.change(ctx) // a fault may refuse it; the next one follows
	})
}

// change gives the profile another spec, which is valid and places pods in another way.
func (t *traffic) change(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	i := t.changes.Add(1)
	weight := 1 + i%5
	return operator.ApplyProfile(ctx, t.env.cp, profile, v1alpha1.SchedulingProfileSpec{
		PercentageOfNodesToScore: 50 + i%50,
		Plugins: &v1alpha1.Plugins{Score: v1alpha1.PluginSet{
			Enabled: []v1alpha1.EnabledPlugin{{Name: "NodeResourcesBalancedAllocation", Weight: &weight}},
		}},
		// Only events requeue an unschedulable pod: a flush would hide one that is missed.
		Queue: v1alpha1.QueuePolicy{FlushAfterSeconds: new(int32(0))},
	})
}

// expectBinds waits until so many more pods are bound.
func (t *traffic) expectBinds(n int, within time.Duration, while string) {
	GinkgoHelper()
	Eventually(bound).WithArguments(t.checker).WithTimeout(within).Should(BeNumerically(">=", bound(t.checker)+n), while)
}
