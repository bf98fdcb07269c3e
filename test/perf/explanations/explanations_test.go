// Package explanations creates many pending pods at once on a real API server, and counts in
// its audit log the writes that explain them.
package explanations

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

var pods = flag.Int("pods", 300, "number of pending pods")

const (
	namespace, profile = "pending", "pending"
	// perSecond is the limit of writes a second for all explanations.
	perSecond = 20
	// window is the time over which writes are counted. Writes that Berth sends in time may be
	// late at a busy API server, so that a window may have a tenth more.
	window       = 5 * time.Second
	maxPerWindow = perSecond * 5 * 11 / 10
)

// However many pods are pending, at most twenty writes a second explain them, each pod has one
// write, and all of them are explained in the end.
func TestPendingPodsAreExplainedWithinTheBudget(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Duration(*pods)*time.Second/5)
	defer cancel()
	log, args, err := audit.New(t.TempDir(), audit.Explanations)
	noError(t, err)
	cp, err := operator.Cluster(ctx, args...)
	noError(t, err)
	defer cp.Stop()
	admin, berth := startBerth(ctx, t, cp)
	defer func() { noError(t, berth.Stop()) }()

	began := time.Now()
	noError(t, load.Each(ctx, *pods, 16, func(ctx context.Context, i int) error {
		return admin.Create(ctx, fixture.Pod(fmt.Sprintf("%s/web-%d", namespace, i)).SchedulerName(profile).Requests("cpu", "64").Valid())
	}))
	t.Logf("%d pods were created in %.0f s", *pods, time.Since(began).Seconds())
	noError(t, wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		writes, err := log.Entries()
		return countBy(writes)["create"] >= *pods, err
	}))
	t.Logf("all are explained after %.0f s", time.Since(began).Seconds())
	expectExplained(ctx, t, admin)

	all, err := log.Entries()
	noError(t, err)
	t.Logf("writes by verb: %v; at most %d in a second, %d in %v, of all", countBy(all), audit.Most(all, time.Second), audit.Most(all, window), window)
	if got := audit.Most(all, window); got > maxPerWindow {
		t.Errorf("%d writes in %v, want at most %d", got, window, maxPerWindow)
	}
	if len(all) != *pods {
		t.Errorf("%d writes explain %d pods", len(all), *pods)
	}
	if page, _ := berth.Ledger().History(profile, 0); page.Totals.DecisionsDropped != 0 {
		t.Errorf("%d explanations were dropped", page.Totals.DecisionsDropped)
	}
}

func countBy(writes []audit.Entry) map[string]int {
	byVerb := map[string]int{}
	for i := range writes {
		byVerb[writes[i].Verb]++
	}
	return byVerb
}

// startBerth runs Berth with a profile, and one node that is too small.
func startBerth(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane) (client.Client, *operator.InProcess) {
	t.Helper()
	config := cp.Config()
	config.QPS, config.Burst = 500, 500
	admin, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	noError(t, err)
	account, err := operator.AccountConfig(ctx, cp)
	noError(t, err)
	berth, err := operator.Run(account, nil, manager.WithLogger(logr.Discard()))
	noError(t, err)
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: profile}}
	for _, object := range []client.Object{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, p, fixture.Node("small").Capacity("cpu", "4", "pods", "110").Obj(),
	} {
		noError(t, admin.Create(ctx, object))
	}
	noError(t, wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Status.Programmed != nil, err
	}))
	return admin, berth
}

// expectExplained checks that each pod has a SchedulingDecision that says why it is pending.
func expectExplained(ctx context.Context, t *testing.T, admin client.Client) {
	t.Helper()
	var waiting v1.PodList
	noError(t, admin.List(ctx, &waiting, client.InNamespace(namespace)))
	var said v1alpha1.SchedulingDecisionList
	noError(t, admin.List(ctx, &said, client.InNamespace(namespace)))
	why := map[types.UID]*v1alpha1.SchedulingDecision{}
	for i := range said.Items {
		for _, owner := range said.Items[i].OwnerReferences {
			why[owner.UID] = &said.Items[i]
		}
	}
	unexplained := 0
	for i := range waiting.Items {
		d := why[waiting.Items[i].UID]
		if d == nil || d.Status.Result != v1alpha1.ResultUnschedulable || d.Status.BlockedBy != "NodeResourcesFit 1" || len(d.Status.ClosestNodes) != 1 {
			unexplained++
		}
	}
	if len(waiting.Items) != *pods || unexplained > 0 {
		t.Errorf("of %d pending pods %d are not explained", len(waiting.Items), unexplained)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
