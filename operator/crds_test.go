package operator

import (
	"context"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berthdev/berth/api/v1alpha1"
)

// newServedCRDs returns a crdWaiter of an API server that serves Berth's CRDs.
func newServedCRDs(onServed func() error) *crdWaiter {
	client := fake.NewClientset()
	client.Resources = []*metav1.APIResourceList{{
		GroupVersion: v1alpha1.GroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "schedulingprofiles"}, {Name: "pluginconfigs"}},
	}}
	return &crdWaiter{discovery: client.Discovery(), log: logr.Discard(), onServed: onServed}
}

func TestNoControllersStartInAManagerThatStops(t *testing.T) {
	started := false
	w := newServedCRDs(func() error { started = true; return nil })
	w.stop()
	if err := w.Start(context.Background()); err != nil || started {
		t.Errorf("Start: %v; controllers started: %v, want none", err, started)
	}
	if w.ready() == nil {
		t.Error("ready, want an error")
	}
}

func TestAManagerStopsAfterItsControllersStarted(t *testing.T) {
	var order []string
	stopped := make(chan struct{})
	var w *crdWaiter
	w = newServedCRDs(func() error {
		go func() {
			defer close(stopped)
			w.stop()
			order = append(order, "stopped")
		}()
		order = append(order, "started")
		return nil
	})
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if want := []string{"started", "stopped"}; !slices.Equal(order, want) {
		t.Errorf("order: %q, want %q", order, want)
	}
}
