package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// story tells a history, a line a version: "node n1 2" offers two places, "a wait",
// "a refused", "a n1 3" is bound to n1 by epoch 3, "a gone".
func story(t *testing.T, lines ...string) []Change {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	var changes []Change
	for i, line := range lines {
		words := strings.Fields(line)
		change := Change{Version: uint64(i + 1)}
		if words[0] == "node" {
			change.Node = fixture.Node(words[1]).Capacity("cpu", "4", "memory", "8Gi", "pods", words[2]).Obj()
			changes = append(changes, change)
			continue
		}
		pod := pods[words[0]]
		if pod == nil {
			pod = fixture.Pod(words[0]).SchedulerName("p").Obj()
		}
		pod = pod.DeepCopy()
		switch {
		case words[1] == "wait":
		case words[1] == "gone":
			change.Gone = true
		case words[1] == "refused":
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		default:
			pod.Spec.NodeName = words[1]
			pod.Annotations = map[string]string{decisionKey: fmt.Sprintf(`{"node":%q,"epoch":%s}`, words[1], words[2])}
		}
		pods[words[0]], change.Pod = pod, pod
		changes = append(changes, change)
	}
	return changes
}

func TestWhatIsWrongWithAHistory(t *testing.T) {
	for sentence, c := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing":                           {[]string{"node n 2", "a wait", "a n 1", "b wait", "b n 2"}, ""},
		"nothing where who waits is told":   {[]string{"node n 1", "a wait", "b wait", "a n 1", "b refused"}, ""},
		"nothing where room comes back":     {[]string{"node n 1", "a wait", "a n 1", "a gone", "b wait", "b n 1"}, ""},
		"a pod that moves":                  {[]string{"node n 2", "node m 2", "a wait", "a n 1", "a m 1"}, "version 5: default/a was on n and is on \"m\""},
		"a node that holds too many":        {[]string{"node n 1", "a wait", "b wait", "a n 1", "b n 1"}, "version 5: default/b was bound to n, which then held 2 of 1 pods"},
		"too many for a moment only":        {[]string{"node n 1", "a wait", "b wait", "a n 1", "b n 1", "a gone"}, "version 5: default/b was bound to n, which then held 2 of 1 pods"},
		"an old leader after the new one":   {[]string{"node n 2", "a wait", "b wait", "a n 2", "b n 1"}, "version 5: default/b was bound by epoch 1, after epoch 2 had bound"},
		"a node that is not there":          {[]string{"a wait", "a n 1"}, "version 2: default/a was bound to n, which is not there"},
		"a pod that waits and was not told": {[]string{"node n 1", "a wait", "b wait", "a n 1"}, "default/b has no node, and was not refused"},
		"a pod that waits beside room":      {[]string{"node n 2", "a wait", "a n 1", "b refused"}, "default/b waits, and n has room for it"},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := Check(story(t, c.lines...), "p")
			found := append(v.Violations, v.Unsettled...)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %q", found)
			case c.want != "" && !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, c.want) }):
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

func TestWhatIsCounted(t *testing.T) {
	v := Check(story(t, "node n 3", "a wait", "a n 1", "b wait", "b n 1", "c wait", "c n 2", "d refused"), "p")
	want := "8 versions replayed: 4 pods, 3 binds by 2 leaderships, 1 waiting in the end; the fullest node held 3 pods of 3; 0 violations"
	if v.String() != want {
		t.Errorf("got  %s\nwant %s", v, want)
	}
}
