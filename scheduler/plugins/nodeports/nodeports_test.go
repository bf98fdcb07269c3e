package nodeports

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestFilter(t *testing.T) {
	taken := fwk.NewStatus(fwk.Unschedulable, "node(s) didn't have free ports for the requested pod ports")
	there := func(ip string, protocol v1.Protocol, port int32) *v1.Pod {
		return fixture.Pod("there").HostPort(ip, protocol, port).Obj()
	}
	for sentence, c := range map[string]struct {
		pod   *fixture.PodBuilder
		there *v1.Pod
		skips bool
		want  *fwk.Status
	}{
		"a pod without host ports skips Filter": {pod: fixture.Pod("a").Requests(), there: there("", "", 80), skips: true},
		"another port is free":                  {pod: fixture.Pod("a").HostPort("", "", 81), there: there("", "", 80)},
		"the same port is taken":                {pod: fixture.Pod("a").HostPort("", "", 80), there: there("", "TCP", 80), want: taken},
		"the same port of another protocol is free": {
			pod: fixture.Pod("a").HostPort("", "UDP", 80), there: there("", "TCP", 80),
		},
		"the same port of another address is free": {
			pod: fixture.Pod("a").HostPort("10.0.0.1", "", 80), there: there("10.0.0.2", "", 80),
		},
		"all addresses are in the way of one": {
			pod: fixture.Pod("a").HostPort("10.0.0.1", "", 80), there: there("", "", 80), want: taken,
		},
		"one address is in the way of all": {
			pod: fixture.Pod("a").HostPort("", "", 80), there: there("10.0.0.1", "", 80), want: taken,
		},
		"the second of two ports may be the taken one": {
			pod: fixture.Pod("a").HostPort("", "", 79).HostPort("", "", 80), there: there("", "", 80), want: taken,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			plugin, state := &Plugin{}, framework.NewCycleState()
			_, status := plugin.PreFilter(t.Context(), state, c.pod.Obj(), nil)
			if status.IsSkip() != c.skips {
				t.Fatalf("PreFilter gives %v, want a skip: %v", status, c.skips)
			}
			if c.skips {
				return
			}
			got := plugin.Filter(t.Context(), state, c.pod.Obj(), framework.NewNodeInfo(c.there))
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
	for sentence, c := range map[string]struct {
		deleted any
		want    fwk.QueueingHint
		wantErr bool
	}{
		"the port's holder goes":                    {deleted: fixture.Pod("b").HostPort("", "", 80).On("n").Obj(), want: fwk.Queue},
		"one that was promised a node goes":         {deleted: fixture.Pod("b").HostPort("", "", 80).NominatedNodeName("n").Obj(), want: fwk.Queue},
		"the holder of another port goes":           {deleted: fixture.Pod("b").HostPort("", "", 81).On("n").Obj(), want: fwk.QueueSkip},
		"a pod without ports goes":                  {deleted: fixture.Pod("b").On("n").Obj(), want: fwk.QueueSkip},
		"a pod that waits for the same port goes":   {deleted: fixture.Pod("b").HostPort("", "", 80).Obj(), want: fwk.QueueSkip},
		"an event about something else is an error": {deleted: fixture.Node("n").Obj(), want: fwk.Queue, wantErr: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := isSchedulableAfterPodDeleted(klog.Background(), pod, c.deleted, nil)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
