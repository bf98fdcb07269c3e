package nodeports

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestFilter(t *testing.T) {
	portsInUse := fwk.NewStatus(fwk.Unschedulable, "node(s) didn't have free ports for the requested pod ports")
	existing := func(ip string, protocol v1.Protocol, port int32) *v1.Pod {
		return fixture.Pod("there").HostPort(ip, protocol, port).Obj()
	}
	for name, c := range map[string]struct {
		pod      *fixture.PodBuilder
		existing *v1.Pod
		skips    bool
		want     *fwk.Status
	}{
		"a pod without host ports skips Filter": {pod: fixture.Pod("a").Requests(), existing: existing("", "", 80), skips: true},
		"another port is free":                  {pod: fixture.Pod("a").HostPort("", "", 81), existing: existing("", "", 80)},
		"the same port is in use":               {pod: fixture.Pod("a").HostPort("", "", 80), existing: existing("", "TCP", 80), want: portsInUse},
		"the same port of another protocol is free": {
			pod: fixture.Pod("a").HostPort("", "UDP", 80), existing: existing("", "TCP", 80),
		},
		"the same port of another address is free": {
			pod: fixture.Pod("a").HostPort("10.0.0.1", "", 80), existing: existing("10.0.0.2", "", 80),
		},
		"a port on all addresses conflicts with one address": {
			pod: fixture.Pod("a").HostPort("10.0.0.1", "", 80), existing: existing("", "", 80), want: portsInUse,
		},
		"a port on one address conflicts with all addresses": {
			pod: fixture.Pod("a").HostPort("", "", 80), existing: existing("10.0.0.1", "", 80), want: portsInUse,
		},
		"the second of two ports is in use": {
			pod: fixture.Pod("a").HostPort("", "", 79).HostPort("", "", 80), existing: existing("", "", 80), want: portsInUse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, state := &Plugin{}, framework.NewCycleState()
			_, status := plugin.PreFilter(t.Context(), state, c.pod.Obj(), nil)
			if status.IsSkip() != c.skips {
				t.Fatalf("PreFilter returns %v, want a skip: %v", status, c.skips)
			}
			if c.skips {
				return
			}
			got := plugin.Filter(t.Context(), state, c.pod.Obj(), framework.NewNodeInfo(c.existing))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilterWithoutPreFilterIsAnError(t *testing.T) {
	status := (&Plugin{}).Filter(t.Context(), framework.NewCycleState(), fixture.Pod("a").Obj(), framework.NewNodeInfo())
	if !status.IsError() {
		t.Errorf("status %v, want an error", status)
	}
}

func TestIsSchedulableAfterPodDeleted(t *testing.T) {
	pod := fixture.Pod("a").HostPort("", "", 80).Obj()
	for name, c := range map[string]struct {
		deleted any
		want    fwk.QueueingHint
		wantErr bool
	}{
		"a pod that uses the port is deleted":         {deleted: fixture.Pod("b").HostPort("", "", 80).On("n").Obj(), want: fwk.Queue},
		"a nominated pod with the port is deleted":    {deleted: fixture.Pod("b").HostPort("", "", 80).NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a pod that uses another port is deleted":     {deleted: fixture.Pod("b").HostPort("", "", 81).On("n").Obj(), want: fwk.QueueSkip},
		"a pod without ports is deleted":              {deleted: fixture.Pod("b").On("n").Obj(), want: fwk.QueueSkip},
		"a pending pod with the same port is deleted": {deleted: fixture.Pod("b").HostPort("", "", 80).Obj(), want: fwk.QueueSkip},
		"an object of another kind is an error":       {deleted: fixture.Node("n").Obj(), want: fwk.Queue, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := isSchedulableAfterPodDeleted(klog.Background(), pod, c.deleted, nil)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
