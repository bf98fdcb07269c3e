package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fixture"
)

func node(name string, cpu int) *v1.Node {
	return fixture.Node(name).Offers("cpu", fmt.Sprint(cpu), "pods", "20").Obj()
}

func pod(key string, cpu int, priority int32) *fixture.PodBuilder {
	return fixture.Pod(key).Requests("cpu", fmt.Sprint(cpu)).Priority(priority).Scheduler("berth")
}

func TestAPodGetsTheRoomOfItsVictims(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 4),
		pod("shop/a", 2, 1).On("n1").Obj(), pod("shop/b", 1, 2).On("n1").Obj(), pod("shop/c", 1, 9).On("n1").Obj())
	h.profile("berth", nil)
	h.add(pod("bank/big", 3, 9).Obj())
	h.on("bank/big", "n1")

	if diff := cmp.Diff([]string{"shop/b", "shop/a"}, h.evicted()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	h.toldWhyFirst("a", "b")
	h.victims(2)
	told := 0
	for len(h.events) > 0 {
		event := <-h.events
		if strings.HasPrefix(event, "Normal Preempted ") {
			told++
			if want := "Normal Preempted Preempted by pod bank/big on node n1"; event != want {
				t.Errorf("event %q, want %q: the preemptor is named by its UID", event, want)
			}
		}
	}
	if told != 2 {
		t.Errorf("%d events on victims, want 2", told)
	}
}

// toldWhyFirst checks that each pod was told why before it was deleted.
func (h *house) toldWhyFirst(names ...string) {
	h.Helper()
	told := map[string]bool{}
	for _, action := range h.client.Actions() {
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			patch := string(a.Patch)
			told[a.Name] = told[a.Name] || a.Subresource == "status" &&
				strings.Contains(patch, `"type":"DisruptionTarget"`) && strings.Contains(patch, `"reason":"PreemptionByScheduler"`) &&
				strings.Contains(patch, `"message":"berth: preempting to accommodate a higher priority pod"`)
		case clienttesting.DeleteActionImpl:
			if !told[a.Name] {
				h.Errorf("%s was deleted before its status said why", a.Name)
			}
		}
	}
	for _, name := range names {
		if !told[name] {
			h.Errorf("%s was not told why", name)
		}
	}
}

func TestAPodWaitsForVictimsThatTakeTheirTime(t *testing.T) {
	tainted := func(cpu string) *v1.Node {
		return fixture.Node("n2").Offers("cpu", cpu, "pods", "20").Taint("only", "others", v1.TaintEffectNoSchedule).Obj()
	}
	h := newHouse(t, plugins.InTree(), node("n1", 4), tainted("1"), pod("shop/a", 2, 1).On("n1").Obj(), pod("shop/b", 2, 1).On("n1").Obj())
	h.graceful = true
	h.profile("berth", nil)
	h.add(pod("bank/big", 4, 9).Obj())
	h.message("bank/big", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). preemption: found a potential placement for pod on node n1, preempting 2 victims")
	h.eventually("the pod is nominated", func() (bool, any) {
		big, err := h.pod("bank/big")
		return err == nil && big.Status.NominatedNodeName == "n1", big.Status
	})

	h.victims(2)
	// Room elsewhere, though of no use, wakes the pod, again and again: it may
	// be woken before the cache hears that its victims are terminating.
	h.eventually("the pod is told that it has to wait", func() (bool, any) {
		for _, cpu := range []string{"4", "1"} {
			if err := h.update(tainted(cpu)); err != nil {
				return false, err
			}
		}
		message := h.says("bank/big")
		return strings.HasSuffix(message, "preemption: not eligible due to a terminating pod on the nominated node."), message
	})
	h.counts("berth", decision.QueueCounts{Unschedulable: 1})
	if n := len(h.evicted()); n != 2 {
		t.Errorf("%d evictions, want the 2 of the first try", n)
	}

	for _, key := range []string{"shop/a", "shop/b"} {
		victim, err := h.pod(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.finish(victim); err != nil {
			t.Fatal(err)
		}
	}
	h.on("bank/big", "n1")
	if n := len(h.evicted()); n != 2 {
		t.Errorf("%d evictions, want 2", n)
	}
}

func TestAPodIsGatedWhileItsVictimsAreBeingTold(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 4), pod("shop/a", 2, 2).On("n1").Obj(), pod("shop/b", 2, 1).On("n1").Obj())
	last, goOn := make(chan struct{}), make(chan struct{})
	h.onDelete = func(pod *v1.Pod) error {
		if pod.Name == "b" {
			close(last)
			<-goOn
		}
		return nil
	}
	h.profile("berth", nil)
	h.add(pod("bank/big", 4, 9).Obj())
	<-last
	// The deletion of the first victim has woken the pod.
	h.counts("berth", decision.QueueCounts{Gated: 1})
	// A swap does not forget what is under way.
	h.profile("berth", &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "ImageLocality"}}}})
	h.counts("berth", decision.QueueCounts{Gated: 1})
	close(goOn)
	h.on("bank/big", "n1")
	if diff := cmp.Diff([]string{"shop/a", "shop/b"}, h.evicted()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

func TestAProfileWithoutThePluginPreemptsNobody(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 4), pod("shop/a", 4, 1).On("n1").Obj())
	h.profile("berth", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "DefaultPreemption"}}}})
	h.add(pod("bank/big", 4, 9).Obj())
	h.message("bank/big", "0/1 nodes are available: 1 Insufficient cpu.")
	h.counts("berth", decision.QueueCounts{Unschedulable: 1})
	if got := h.evicted(); len(got) > 0 {
		t.Errorf("evicted %v, want nobody", got)
	}
}

func TestAnEvictionThatFailsIsTriedAgainLater(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 4), pod("shop/a", 4, 1).On("n1").Obj())
	asked := make(chan struct{}, 100)
	h.onDelete = func(pod *v1.Pod) error {
		asked <- struct{}{}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("the role is not bound"))
	}
	h.profile("berth", nil)
	h.add(pod("bank/big", 4, 9).Obj())
	<-asked
	h.counts("berth", decision.QueueCounts{Unschedulable: 1})
	if len(asked) > 0 {
		t.Errorf("the API server was asked %d times more at once", len(asked))
	}
	h.mu.Lock()
	h.onDelete = nil
	h.mu.Unlock()
	h.eventually("the timer of the next try is set", func() (bool, any) {
		h.clock.Step(time.Second)
		return len(h.evicted()) > 0, h.clock.Now()
	})
	h.on("bank/big", "n1")
}

func TestAVictimThatIsGoneAlreadyLetsThePodInAtOnce(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 4), pod("shop/a", 4, 1).On("n1").Obj())
	h.onDelete = func(pod *v1.Pod) error {
		if err := h.finish(pod); err != nil {
			return err
		}
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, pod.Name)
	}
	h.profile("berth", nil)
	h.add(pod("bank/big", 4, 9).Obj())
	h.on("bank/big", "n1")
}

func TestALesserPodLosesItsNomination(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 4),
		pod("shop/old", 2, 1).Started(1).On("n1").Obj(), pod("shop/young", 2, 1).Started(2).On("n1").Obj())
	h.graceful = true
	h.profile("berth", nil)
	nominated := func(key, node string) {
		t.Helper()
		h.eventually(fmt.Sprintf("%s is nominated for %q", key, node), func() (bool, any) {
			p, err := h.pod(key)
			return err == nil && p.Status.NominatedNodeName == node, p.Status
		})
	}
	h.add(pod("bank/early", 2, 5).Obj())
	nominated("bank/early", "n1")
	h.add(pod("bank/great", 4, 9).Obj())
	nominated("bank/great", "n1")
	nominated("bank/early", "")
	h.victims(2)
	// The two evictions run side by side.
	if diff := cmp.Diff([]string{"shop/old", "shop/young"}, slices.Sorted(slices.Values(h.evicted()))); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

// Two profiles' pods fight for four places, and whoever is evicted comes again.
func TestWhoIsEvictedAndComesAgainCausesNoStorm(t *testing.T) {
	h := newHouse(t, plugins.InTree(), node("n1", 2), node("n2", 2))
	born := map[string]int{}
	h.recreated = func(pod *v1.Pod) {
		h.mu.Lock()
		base, _, _ := strings.Cut(pod.Name, ".")
		born[base]++
		name := fmt.Sprintf("%s.%d", base, born[base])
		h.mu.Unlock()
		again := fixture.Pod("shop/"+name).Requests("cpu", "1").Priority(*pod.Spec.Priority).Scheduler(pod.Spec.SchedulerName).Obj()
		if err := h.client.Tracker().Add(again); err != nil {
			t.Error(err)
		}
	}
	h.profile("red", nil)
	h.profile("blue", nil)
	// Twelve pods of rising importance, in turn of one profile and the other.
	for i := range 12 {
		profile := []string{"red", "blue"}[i%2]
		key := fmt.Sprintf("shop/p%d", i)
		h.add(fixture.Pod(key).Requests("cpu", "1").Priority(int32(i)).Scheduler(profile).Obj())
		h.eventually(key+" has a place", func() (bool, any) {
			p, err := h.pod(key)
			return err == nil && p.Spec.NodeName != "", err
		})
	}
	// Whatever wakes the others, nobody gains: the flush is past in the end.
	for range 6 {
		h.counts("red", decision.QueueCounts{Unschedulable: 4})
		h.counts("blue", decision.QueueCounts{Unschedulable: 4})
		h.clock.Step(time.Minute)
	}
	// The first four came into free places; each of the rest cost one pod.
	if n := len(h.evicted()); n != 8 {
		t.Errorf("%d evictions (%v), want 8", n, h.evicted())
	}
}

// keeper lets pods with a label wait at Permit, or work in PreBind, until
// somebody stops them.
type keeper struct{}

func (*keeper) Name() string { return "Keeper" }

func (*keeper) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Labels["kept"] != "permit" {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait), time.Hour
}

func (*keeper) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Labels["kept"] != "prebind" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (*keeper) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	<-ctx.Done()
	return fwk.AsStatus(context.Cause(ctx))
}

func TestAVictimOnItsWayIsStoppedInMemory(t *testing.T) {
	for _, where := range []string{"permit", "prebind"} {
		t.Run("a pod in "+where+" goes back to the queue and is not deleted", func(t *testing.T) {
			registry, err := plugins.With(plugins.InTree(), plugins.Register("Keeper",
				func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &keeper{}, nil }, (*keeper)(nil), nil))
			if err != nil {
				t.Fatal(err)
			}
			h := newHouse(t, registry, node("n1", 4))
			h.profile("berth", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Keeper"}}}})
			h.add(pod("shop/kept", 4, 1).Label("kept", where).Obj())
			h.eventually("the pod is on its way", func() (bool, any) {
				kept, err := h.pod("shop/kept")
				return err == nil && kept.Status.NominatedNodeName == "n1", err
			})
			h.add(pod("bank/big", 4, 9).Obj())
			h.on("bank/big", "n1")
			h.eventually("the victim waits", func() (bool, any) {
				h.clock.Step(time.Second) // it sits out the backoff of an error
				page, _ := h.ledger.Page("berth", 0)
				return page.Queue == decision.QueueCounts{Unschedulable: 1}, page.Queue
			})
			if got := h.evicted(); len(got) > 0 {
				t.Errorf("deleted %v, want nobody", got)
			}
			h.victims(1)
		})
	}
}
