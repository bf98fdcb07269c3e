package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// FuzzExplanation explains a pod with any annotation, condition and SchedulingDecision: users
// may write the first, and an API server of another version may store the others. What is
// printed is text that a terminal shows as it is, and JSON that has the same decision.
func FuzzExplanation(f *testing.F) {
	p, hash := runningBatch()
	f.Add(decision.Annotation(boundDecision(hash)), "", []byte(`{}`), true)
	f.Add(`{"v":1,"profile":"batch","node":"n17","evaluated":3,"feasible":2,"top":[{"node":"n17","score":1,"plugins":{"`+strings.Repeat("P", 200)+`":-1}},{"node":""}],"devices":["\u001b[2J","a\nb"]}`, "", []byte(`{}`), true)
	f.Add(`{"v":1,"profile":"batch","node":"n4"}`, "", []byte(`null`), true)
	f.Add(`{"v":2}`, "\x1b]0;title\x07", []byte(`{}`), true)
	for _, change := range []func(*v1alpha1.SchedulingDecisionStatus){
		func(*v1alpha1.SchedulingDecisionStatus) {},
		func(s *v1alpha1.SchedulingDecisionStatus) {
			s.Group = &v1alpha1.DecisionGroup{Name: "train", ExplainedBy: "other"}
			s.Preemption = &v1alpha1.PreemptionResult{Candidates: 12, Victims: 3, Outcome: v1alpha1.PreemptionUnderWay}
		},
		func(s *v1alpha1.SchedulingDecisionStatus) {
			s.DeviceRequests = []v1alpha1.DeviceRequestCounts{{Claim: "gpu", Request: "r/a", Published: 3, Selectors: []v1alpha1.DeviceSelectorCount{{Source: "Class", Expression: "a\x1bb", Matching: 1}}}}
			s.Rejections[0].Reason = "\u009b31m \u202e"
		},
	} {
		text, err := json.Marshal(testDecision("web", change).Status)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("", "0/500 nodes are available: 480 Insufficient cpu.", text, false)
	}
	f.Fuzz(func(t *testing.T, annotation, message string, status []byte, bound bool) {
		if len(annotation)+len(message)+len(status) > 16<<10 {
			return
		}
		pod := kubectltest.WithPodScheduled(kubectltest.Pod("web", "batch", ""), corev1.ConditionFalse, "Unschedulable", message)
		pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: annotation}
		if bound {
			pod.Spec.NodeName = "n17"
		}
		var d *v1alpha1.SchedulingDecisionStatus
		if json.Unmarshal(status, &d) != nil {
			return
		}
		var printed strings.Builder
		streams := genericiooptions.IOStreams{Out: show.Escaped(&printed)}
		o := &options{Env: verb.Env{IOStreams: streams, Now: func() time.Time { return kubectltest.Now }}, output: show.NewFormat("wide"), warn: func(string) {}}
		info := profileLookup{known: true, profiles: []v1alpha1.SchedulingProfile{*p}}.find(pod)
		e := explanationOf(pod, info, d)
		text, err := o.text(pod, info, e)
		if err != nil {
			text = err.Error()
		}
		if _, err := o.Out.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if printed.Len() == 0 || strings.ContainsFunc(printed.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("a terminal does not show %q as it is", printed.String())
		}
		if utf8.ValidString(annotation+message) && !utf8.ValidString(printed.String()) {
			t.Fatalf("%q is not UTF-8", printed.String())
		}
		if (e.Decision != nil) && (e.Decision.Node != "n17" || e.Decision.Profile != "batch" || !bound) {
			t.Fatalf("the annotation of another decision is shown: %+v", e.Decision)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Fatal(err)
		}
	})
}
