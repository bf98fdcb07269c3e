package prioritysort_test

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/plugins/prioritysort"
)

// waiting is a pod in the queue, as far as its place depends on it.
type waiting struct {
	fwk.QueuedEntityInfo
	priority int32
	since    time.Time
}

func (w waiting) GetPriority() int32      { return w.priority }
func (w waiting) GetTimestamp() time.Time { return w.since }

func TestLess(t *testing.T) {
	early := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	late := early.Add(time.Nanosecond)
	for sentence, c := range map[string]struct {
		a, b waiting
		want bool
	}{
		"the more important pod goes first":            {a: waiting{priority: 2, since: late}, b: waiting{priority: 1, since: early}, want: true},
		"the less important pod goes second":           {a: waiting{priority: 1, since: early}, b: waiting{priority: 2, since: late}},
		"a negative priority is less than none":        {a: waiting{priority: -1, since: early}, b: waiting{since: late}},
		"among equals the one that waits longer leads": {a: waiting{since: early}, b: waiting{since: late}, want: true},
		"among equals the later one follows":           {a: waiting{since: late}, b: waiting{since: early}},
		"no pod goes before itself":                    {a: waiting{since: early}, b: waiting{since: early}},
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
