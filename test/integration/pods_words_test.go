package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// The words of this suite about pods and nodes. A yard is one spec's part of
// the cluster. Nobody plays the kubelet: a bound pod stays as it was bound.

// yard is a namespace, and nodes whose names begin with its name, so that no
// spec meets what another one left behind.
type yard struct{ name string }

// aYard creates a yard. Its namespace stays: no controller here could empty it.
func aYard(ctx context.Context) yard {
	GinkgoHelper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "yard-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	return yard{ns.Name}
}

// node starts a node of the yard, with room for 110 pods and nothing else.
func (y yard) node(name string) *fixture.NodeBuilder { return fixture.Node(y.name + "-" + name) }

// pod starts a pod of the yard that waits for p and asks for nothing.
func (y yard) pod(p *v1alpha1.SchedulingProfile, name string) *fixture.PodBuilder {
	return fixture.Pod(y.name + "/" + name).SchedulerName(p.Name)
}

// aNode creates a node as it is written, status included.
func aNode(ctx context.Context, node *fixture.NodeBuilder) *v1.Node {
	GinkgoHelper()
	return apitest.Created(ctx, admin, node.Obj())
}

// aPod creates a pod, which goes at once when the spec ends.
func aPod(ctx context.Context, builder *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	return apitest.Created(ctx, admin, builder.Valid())
}

// expectHeld waits until a pod says for what reason it is not scheduled.
func expectHeld(ctx context.Context, reason string, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix("False "+reason), pod.Name)
		Expect(pod.Spec.NodeName).To(BeEmpty())
	}
}

// told are the Events about a pod: "type reason action by reporter: note".
func told(ctx context.Context, pod *v1.Pod) func(g Gomega) []string {
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(pod.Namespace))).To(Succeed())
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == pod.UID {
				out = append(out, fmt.Sprintf("%s %s %s by %s: %s", e.Type, e.Reason, e.Action, e.ReportingController, e.Note))
			}
		}
		return out
	}
}

// record is what the annotation on a bound pod says.
type record struct {
	V          int                  `json:"v"`
	Profile    string               `json:"profile"`
	Generation int64                `json:"generation"`
	Hash       string               `json:"hash"`
	Epoch      *int64               `json:"epoch"`
	Node       string               `json:"node"`
	Evaluated  int                  `json:"evaluated"`
	Feasible   int                  `json:"feasible"`
	Attempts   int                  `json:"attempts"`
	Walk       decision.Walk        `json:"walk"`
	Top        []decision.NodeScore `json:"top"`
}

// recordOf waits until a pod is bound and reads its annotation, which must
// have no key that record has not.
func recordOf(ctx context.Context, pod *v1.Pod) record {
	GinkgoHelper()
	admin.ExpectBound(ctx, pod)
	return recordIn(pod)
}

func recordIn(pod *v1.Pod) record {
	GinkgoHelper()
	text, ok := pod.Annotations["berth.dev/decision"]
	Expect(ok).To(BeTrue(), "%s carries the annotation", pod.Name)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var r record
	Expect(decoder.Decode(&r)).To(Succeed(), text)
	return r
}

// waiting says where a profile's pods are now, in the scheduler itself.
func waiting(p *v1alpha1.SchedulingProfile) func() decision.QueueCounts {
	return func() decision.QueueCounts { return berth.Scheduler().QueueCounts(p.Name) }
}

// Edits of a profile's spec.

func annotating(how v1alpha1.Switch) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Annotate = how }
}

func naming(topScores int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Decisions.Detail, s.Decisions.TopScores = v1alpha1.DetailNodes, &topScores
	}
}

func keeping(history int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.History = &history }
}

// neverFlushing leaves a pod that fits nowhere to the events alone.
func neverFlushing(s *v1alpha1.SchedulingProfileSpec) { s.Queue.FlushAfterSeconds = new(int32(0)) }

func scoringBy(kind string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		args := raw(strategy(kind))
		s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", Args: &args}}
	}
}
