package prioritysort_test

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/plugins/prioritysort"
)

// waiting is a pod in the queue, as far as its place depends on it.
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
	for sentence, c := range map[string]struct {
		a, b queuedPod
		want bool
	}{
		"the more important pod goes first":            {a: queuedPod{priority: 2, timestamp: late}, b: queuedPod{priority: 1, timestamp: early}, want: true},
		"the less important pod goes second":           {a: queuedPod{priority: 1, timestamp: early}, b: queuedPod{priority: 2, timestamp: late}},
		"a negative priority is less than none":        {a: queuedPod{priority: -1, timestamp: early}, b: queuedPod{timestamp: late}},
		"among equals the one that waits longer leads": {a: queuedPod{timestamp: early}, b: queuedPod{timestamp: late}, want: true},
		"among equals the later one follows":           {a: queuedPod{timestamp: late}, b: queuedPod{timestamp: early}},
		"no pod goes before itself":                    {a: queuedPod{timestamp: early}, b: queuedPod{timestamp: early}},
	} {
		t.Run(sentence, func(t *testing.T) {
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
