package nodevolumelimits

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/scopedinformers"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/informertest"
)

// Berth wakes pods in a handler of its own. A pod that an event wakes must be
// judged by attachments as they are after the event, even where the handlers that
// were added for the profile's plugins are called later.
func TestFilterSeesTheAttachmentWhoseEventRequeuedThePod(t *testing.T) {
	client := fake.NewClientset(
		csiVolume("pv-a", driver), csiVolume("pv-b", driver), fixture.Claim("a", "late").BoundTo("pv-a").Obj(), csiNodeWithLimits(map[string]int32{driver: 1}),
	)
	watched := informertest.WatchStarted(client, "volumeattachments")
	factory := informers.NewSharedInformerFactory(client, 0)
	events := make(chan string)
	tell := func(what string) func(any) { return func(any) { events <- what } }
	attachments := factory.Storage().V1().VolumeAttachments().Informer()
	if _, err := attachments.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: tell("added"), DeleteFunc: tell("deleted")}); err != nil {
		t.Fatal(err)
	}
	pool := scopedinformers.NewPool(scopedinformers.Options{
		Informers: informertest.DelayedHandlers{SharedInformerFactory: factory, Release: t.Context().Done()},
		Watched:   eventhandlers.AllStorage().Kinds(), Client: client, Log: logr.Discard(),
	})
	lent := pool.NewFactory()
	t.Cleanup(lent.Close)
	handle := fakeHandle{informers: lent}
	plugin, err := New(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	lent.Storage().V1().CSINodes().Informer() // the handle reads them
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	<-watched
	node := framework.NewNodeInfo()
	node.SetNode(fixture.Node("n").Obj())
	verdictAt := func(event string) fwk.Code {
		t.Helper()
		select {
		case got := <-events:
			if got != event {
				t.Fatalf("the event is that the attachment was %s, want %s", got, event)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no event")
		}
		return plugin.(fwk.FilterPlugin).Filter(t.Context(), nil, fixture.Pod("woken").Claim("a").Obj(), node).Code()
	}
	api, taken := client.StorageV1().VolumeAttachments(), attachment("pv-b", driver, "n")
	for range 3 {
		if _, err := api.Create(t.Context(), taken, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := verdictAt("added"); got != fwk.Unschedulable {
			t.Errorf("%v at the event of an attachment that takes the last place, want Unschedulable", got)
		}
		if err := api.Delete(t.Context(), taken.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := verdictAt("deleted"); got != fwk.Success {
			t.Errorf("%v at the event of the deletion that gave the place back, want Success", got)
		}
	}
}
