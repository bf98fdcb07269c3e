package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

// parseHistory parses a history, a version per line: "node n1 2" is a node that takes two
// pods, "a wait" a new pod, "a refused" an unschedulable one, "a n1 3" one that epoch 3
// bound to n1, "a gone" a deleted one.
func parseHistory(t *testing.T, lines ...string) []Change {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	var changes []Change
	for i, line := range lines {
		words := strings.Fields(line)
		change := Change{Revision: int64(i + 1)}
		if words[0] == "node" {
			change.Object = fixture.Node(words[1]).Capacity("cpu", "4", "memory", "8Gi", "pods", words[2]).Obj()
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
			change.Deleted = true
		case words[1] == "refused":
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		default:
			pod.Spec.NodeName = words[1]
			pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: fmt.Sprintf(`{"node":%q,"epoch":%s}`, words[1], words[2])}
		}
		pods[words[0]], change.Object = pod, pod
		changes = append(changes, change)
	}
	return changes
}

func TestCheckFindsViolations(t *testing.T) {
	for sentence, c := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing": {[]string{"node n 2", "a wait", "a n 1", "b wait", "b n 2"}, ""},
		"no violation when a pending pod is unschedulable": {[]string{"node n 1", "a wait", "b wait", "a n 1", "b refused"}, ""},
		"no violation when room becomes free":              {[]string{"node n 1", "a wait", "a n 1", "a gone", "b wait", "b n 1"}, ""},
		"a pod that moves":                                 {[]string{"node n 2", "node m 2", "a wait", "a n 1", "a m 1"}, "version 5: default/a was on n and is on \"m\""},
		"a node with too many pods":                        {[]string{"node n 1", "a wait", "b wait", "a n 1", "b n 1"}, "version 5: default/b was bound to n, which then had 2 of 1 pods"},
		"a node that has too many pods for a moment":       {[]string{"node n 1", "a wait", "b wait", "a n 1", "b n 1", "a gone"}, "version 5: default/b was bound to n, which then had 2 of 1 pods"},
		"an old leader after the new one":                  {[]string{"node n 2", "a wait", "b wait", "a n 2", "b n 1"}, "version 5: default/b was bound by epoch 1, after epoch 2 had bound"},
		"a node that does not exist":                       {[]string{"a wait", "a n 1"}, "version 2: default/a was bound to n, which does not exist"},
		"a pending pod that is not unschedulable":          {[]string{"node n 1", "a wait", "b wait", "a n 1"}, "default/b has no node, and is not unschedulable"},
		"a pending pod although there is room":             {[]string{"node n 2", "a wait", "a n 1", "b refused"}, "default/b is pending, and n has room for it"},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := Check(parseHistory(t, c.lines...), "p")
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

func TestCheckCounts(t *testing.T) {
	v := Check(parseHistory(t, "node n 3", "a wait", "a n 1", "b wait", "b n 1", "c wait", "c n 2", "d refused"), "p")
	want := "8 versions replayed: 4 pods, 3 binds by 2 leaders, 1 pending at the end; the fullest node had 3 pods of 3; 0 violations"
	if v.String() != want {
		t.Errorf("got  %s\nwant %s", v, want)
	}
}
