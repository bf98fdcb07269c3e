package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/berthdev/berth/test/support/badinput"
	"github.com/berthdev/berth/test/support/fixture"
)

// What the API server would never let in may be stored all the same: by an
// older version, or by somebody who can write to etcd.
var _ = Describe("A bad pod that is stored all the same", func() {
	It("is bound or told why not, and the others go on", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		expectReady(ctx, p) // a trial on bad pods would refuse it
		for i := range 3 {
			aNode(ctx, y.node(fmt.Sprint("n", i)).Capacity("cpu", "64"))
		}
		var bad, good []*v1.Pod
		for i, b := range badinput.Pods() {
			bad = append(bad, smuggled(ctx, y.pod(p, fmt.Sprint("bad", i)).Requests("cpu", "10m"), b))
			good = append(good, aPod(ctx, y.pod(p, fmt.Sprint("good", i)).Requests("cpu", "10m")))
		}
		for i, b := range badinput.Pods() {
			said := HavePrefix("Normal Scheduled ")
			if b.Message != "" {
				said = And(HavePrefix("Warning FailedScheduling "), ContainSubstring(b.Message))
			}
			Eventually(told(ctx, bad[i])).Should(ContainElement(said), b.Description)
			Expect(told(ctx, bad[i])(NewWithT(GinkgoT()))).NotTo(ContainElement(ContainSubstring("panicked")), b.Description)
		}
		admin.ExpectBound(ctx, good...)
	})

	It("and is on a node already is counted there, and the others go on", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		expectReady(ctx, p) // a trial on bad pods would refuse it
		full := aNode(ctx, y.node("full").Capacity("cpu", "64"))
		aNode(ctx, y.node("free").Capacity("cpu", "64"))
		for i, b := range badinput.Pods() {
			smuggled(ctx, y.pod(p, fmt.Sprint("bad", i)).Requests("cpu", "10m").On(full.Name), b)
		}
		for i := range 5 {
			admin.ExpectBound(ctx, aPod(ctx, y.pod(p, fmt.Sprint("good", i)).Label("app", "web").Requests("cpu", "10m").
				Spread(fixture.SoftSpreadConstraint(v1.LabelHostname, "app", "web")).
				PreferPodAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")).
				RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "db"))))
		}
	})
})

// smuggled writes a pod straight to etcd, made bad.
func smuggled(ctx context.Context, builder *fixture.PodBuilder, b badinput.Pod) *v1.Pod {
	GinkgoHelper()
	pod := builder.UID(string(uuid.NewUUID())).Obj()
	pod.APIVersion, pod.Kind, pod.Status.Phase = "v1", "Pod", v1.PodPending
	b.Bad(pod)
	text, err := json.Marshal(pod)
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.Store(ctx, "/registry/pods/"+pod.Namespace+"/"+pod.Name, text)).To(Succeed(), b.Description)
	DeferCleanup(func(ctx SpecContext) { admin.Remove(ctx, pod) })
	return pod
}
