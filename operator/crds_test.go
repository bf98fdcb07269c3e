package operator

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berthdev/berth/api/v1alpha1"
)

// lateMapper is the REST mapper of an API server that serves a kind from the second request
// for it on.
type lateMapper struct {
	meta.RESTMapper
	late  string
	asked int
}

func (m *lateMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind == m.late {
		if m.asked++; m.asked == 1 {
			return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
		}
	}
	return &meta.RESTMapping{}, nil
}

// newServedCRDs returns a crdWaiter of an API server that serves Berth's CRDs.
func newServedCRDs(onServed func() error) *crdWaiter {
	client := fake.NewClientset()
	client.Resources = []*metav1.APIResourceList{{
		GroupVersion: v1alpha1.GroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "schedulingprofiles"}, {Name: "pluginconfigs"}},
	}}
	return &crdWaiter{discovery: client.Discovery(), mapper: &lateMapper{}, log: logr.Discard(), onServed: onServed}
}

func TestControllersStartOnceTheirMapperKnowsTheirKinds(t *testing.T) {
	for _, kind := range []string{"SchedulingProfile", "PluginConfig"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mapper, started := &lateMapper{late: kind}, 0
				w := newServedCRDs(func() error {
					if started++; mapper.asked < 2 {
						t.Errorf("controllers start while an API server does not serve %s", kind)
					}
					return nil
				})
				w.mapper = mapper
				if err := w.Start(t.Context()); err != nil || started != 1 || w.ready() != nil {
					t.Errorf("started %d times, %v; ready: %v", started, err, w.ready())
				}
			})
		})
	}
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
