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
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/informertest"
)

// Berth requeues pods in an event handler of its own. Filter must see the attachments
// as they are after the event that requeued the pod, even if the handlers of the
// profile's plugins run later.
func TestFilterSeesTheAttachmentWhoseEventRequeuedThePod(t *testing.T) {
	client := fake.NewClientset(
		csiVolume("pv-a", driver), csiVolume("pv-b", driver), fixture.Claim("a", "late").BoundTo("pv-a").Obj(), csiNodeWithLimits(map[string]int32{driver: 1}),
	)
	watched := informertest.WatchStarted(client, "volumeattachments")
	factory := informers.NewSharedInformerFactory(client, 0)
	events := make(chan string)
	send := func(what string) func(any) { return func(any) { events <- what } }
	attachments := factory.Storage().V1().VolumeAttachments().Informer()
	if _, err := attachments.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: send("added"), DeleteFunc: send("deleted")}); err != nil {
		t.Fatal(err)
	}
	pool := scopedinformers.NewPool(scopedinformers.Options{
		Informers: informertest.DelayedHandlers{SharedInformerFactory: factory, Release: t.Context().Done()},
		Watched:   eventhandlers.AllStorage().Kinds(), Client: client, Log: logr.Discard(),
	})
	scoped := pool.NewFactory(nil)
	t.Cleanup(scoped.Close)
	handle := fakeHandle{informers: scoped}
	plugin, err := New(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	scoped.Storage().V1().CSINodes().Informer() // the handle reads them
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	<-watched
	node := framework.NewNodeInfo()
	node.SetNode(fixture.Node("n").Obj())
	codeAfter := func(event string) fwk.Code {
		t.Helper()
		select {
		case got := <-events:
			if got != event {
				t.Fatalf("the event says that the attachment was %s, want %s", got, event)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no event")
		}
		return plugin.(fwk.FilterPlugin).Filter(t.Context(), nil, fixture.Pod("requeued").Claim("a").Obj(), node).Code()
	}
	api, added := client.StorageV1().VolumeAttachments(), attachment("pv-b", driver, "n")
	for range 3 {
		if _, err := api.Create(t.Context(), added, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := codeAfter("added"); got != fwk.Unschedulable {
			t.Errorf("%v after the event of an attachment that reaches the limit, want Unschedulable", got)
		}
		if err := api.Delete(t.Context(), added.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := codeAfter("deleted"); got != fwk.Success {
			t.Errorf("%v after the event of the deletion, want Success", got)
		}
	}
}
