package prioritysort_test

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/plugins/prioritysort"
)

// queuedPod is a queued pod with the fields that Less reads.
type queuedPod struct {
	fwk.QueuedEntityInfo
	priority  int32
	timestamp time.Time
}

func (w queuedPod) GetPriority() int32      { return w.priority }
func (w queuedPod) GetTimestamp() time.Time { return w.timestamp }

func TestLess(t *testing.T) {
	early := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	late := early.Add(time.Nanosecond)
	for name, c := range map[string]struct {
		a, b queuedPod
		want bool
	}{
		"the pod of higher priority goes first":        {a: queuedPod{priority: 2, timestamp: late}, b: queuedPod{priority: 1, timestamp: early}, want: true},
		"the pod of lower priority goes second":        {a: queuedPod{priority: 1, timestamp: early}, b: queuedPod{priority: 2, timestamp: late}},
		"a negative priority is lower than none":       {a: queuedPod{priority: -1, timestamp: early}, b: queuedPod{timestamp: late}},
		"of equal priority the earlier pod goes first": {a: queuedPod{timestamp: early}, b: queuedPod{timestamp: late}, want: true},
		"of equal priority the later pod goes second":  {a: queuedPod{timestamp: late}, b: queuedPod{timestamp: early}},
		"no pod goes before itself":                    {a: queuedPod{timestamp: early}, b: queuedPod{timestamp: early}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := prioritysort.New(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := plugin.(fwk.QueueSortPlugin).Less(c.a, c.b); got != c.want {
				t.Errorf("Less is %v, want %v", got, c.want)
			}
		})
	}
}
