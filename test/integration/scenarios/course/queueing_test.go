package course

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// waking is a scenario: pods that fit nowhere, a change, and which of them are
// tried again because of it.
type waking struct {
	nodes []*fixture.NodeBuilder
	// there are pods that have a node from the beginning.
	there []*fixture.PodBuilder
	// refused are the pods that fit nowhere, and why what each of them is told,
	// in part.
	refused []*fixture.PodBuilder
	why     string
	change  func(ctx context.Context)
	// again names those that are tried again, parted by blanks. The others are
	// left alone.
	again string
}

// wakings runs each scenario twice: as it is, and with a swap of the profile
// between the refusal and the change, by an edit that touches no plugin. What
// the swap does to the pods that wait is not at issue: they rest again before
// the change comes.
func wakings(table map[string]waking) {
	for _, sentence := range slices.Sorted(maps.Keys(table)) {
		It(sentence, minute, func(ctx SpecContext) { table[sentence].plays(ctx, false) })
		It(sentence+", also after a swap", minute, func(ctx SpecContext) { table[sentence].plays(ctx, true) })
	}
}

// plays shows who is woken while the loop stands still: nobody is popped then,
// and what one pod does cannot wake another.
func (w waking) plays(ctx context.Context, swapped bool) {
	GinkgoHelper()
	p := aProfile(ctx)
	for _, node := range w.nodes {
		aNode(ctx, node)
	}
	for _, pod := range w.there {
		aPod(ctx, p, pod)
	}
	ring(ctx)
	pods := map[string]*v1.Pod{}
	for _, builder := range w.refused {
		pod := aPod(ctx, p, builder)
		pods[pod.Name] = pod
		Eventually(admin.Standing(ctx, pod)).Should(SatisfyAll(HavePrefix("False Unschedulable"), ContainSubstring(w.why)), pod.Name)
	}
	if swapped {
		swap(ctx, p, naming(1))
	}
	Eventually(waiting(p)).Should(HaveField("Unschedulable", len(pods)))

	release := stopLoop(ctx)
	before := map[string]int{}
	for name, pod := range pods {
		before[name] = attempts(p, pod)()
	}
	w.change(ctx)
	ring(ctx)
	places, want := map[string]string{}, map[string]string{}
	for name, pod := range pods {
		places[name], want[name] = asleepOrNot(where(pod)()), "sleeps"
	}
	for _, name := range strings.Fields(w.again) {
		want[name] = "wakes"
	}
	Expect(places).To(Equal(want))

	release()
	for _, name := range strings.Fields(w.again) {
		Eventually(attempts(p, pods[name])).Should(BeNumerically(">", before[name]), name)
	}
}

func asleepOrNot(place queue.Place) string {
	switch place {
	case queue.Active, queue.Backoff:
		return "wakes"
	case queue.Unschedulable:
		return "sleeps"
	}
	return string(place)
}

// Changes. Objects are known by their names.

// nodeComes creates a node.
func nodeComes(node *fixture.NodeBuilder) func(context.Context) {
	return func(ctx context.Context) { aNode(ctx, node) }
}

// nodeGoes deletes one.
func nodeGoes(name string) func(context.Context) {
	return func(ctx context.Context) {
		admin.Remove(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// nodeBecomes writes a node's labels, spec and status as they are in another.
func nodeBecomes(node *fixture.NodeBuilder) func(context.Context) {
	return func(ctx context.Context) {
		want := node.Obj()
		now := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: want.Name}}
		apitest.Change(ctx, admin, now, func(node *v1.Node) { node.Labels, node.Spec = want.Labels, want.Spec })
		now.Status = want.Status
		Expect(admin.Status().Update(ctx, now)).To(Succeed())
	}
}

// podGoes deletes a pod.
func podGoes(name string) func(context.Context) {
	return func(ctx context.Context) { admin.Remove(ctx, podNamed(name)) }
}

// placedPodComes creates a pod that has a node already.
func placedPodComes(builder *fixture.PodBuilder) func(context.Context) {
	return func(ctx context.Context) { aPod(ctx, stagehands, builder) }
}

// podBecomes edits a pod.
func podBecomes(name string, edit func(*v1.Pod)) func(context.Context) {
	return func(ctx context.Context) { apitest.Change(ctx, admin, podNamed(name), edit) }
}

// relabelled gives a pod these labels and no others.
func relabelled(name string, labels ...string) func(context.Context) {
	return podBecomes(name, func(pod *v1.Pod) { pod.Labels = fixture.LabelSelector(labels...).MatchLabels })
}

// resized sets what a pod's only container requests.
func resized(name string, pairs ...string) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		pod := podNamed(name)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		pod.Spec.Containers[0].Resources.Requests = fixture.Resources(pairs...)
		Expect(admin.SubResource("resize").Update(ctx, pod)).To(Succeed())
	}
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: scene, Name: name}}
}
