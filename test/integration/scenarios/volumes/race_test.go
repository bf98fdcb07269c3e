package volumes

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("200 pods that race for 100 volumes while their profile is swapped", func() {
	const pods, volumes, nodes = 200, 100, 4

	It("get one each: no two the same, and nobody is lost", minutes, func(ctx SpecContext) {
		s := aScene(ctx, nodes)
		s.create(ctx, fixture.StorageClass("race", ""))
		s.supply(ctx, "first", volumes, nodes)
		s.available(ctx, volumes)

		over := make(chan struct{})
		var swaps sync.WaitGroup
		swaps.Go(func() {
			defer GinkgoRecover()
			for n := int32(4); ; n++ {
				profile(ctx, n%7)
				select {
				case <-over:
					return
				default:
				}
			}
		})
		end := sync.OnceFunc(func() { close(over); swaps.Wait() })
		defer end()
		for i := range pods {
			s.create(ctx, s.claim(fmt.Sprint("c", i), "race").Obj(), s.pod(fmt.Sprint("p", i), fmt.Sprint("c", i)))
		}
		Eventually(s.bound(ctx)).Should(HaveLen(volumes))
		Eventually(s.refused(ctx)).Should(Equal(pods - volumes))
		s.expectOneEach(ctx)
		end()

		By("and who waited gets one as soon as there are more")
		s.supply(ctx, "second", volumes, nodes)
		Eventually(s.bound(ctx)).Should(HaveLen(pods))
		s.expectOneEach(ctx)
	})
})

// supply adds volumes, spread over the nodes.
func (s scene) supply(ctx context.Context, prefix string, volumes, nodes int) {
	GinkgoHelper()
	for i := range volumes {
		s.create(ctx, s.volume(fmt.Sprint(prefix, i), "race", i%nodes).Obj())
	}
}

// bound are the pods that have a node, by name.
func (s scene) bound(ctx context.Context) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		bound := map[string]string{}
		for _, pod := range s.pods(ctx, g) {
			if pod.Spec.NodeName != "" {
				bound[pod.Name] = pod.Spec.NodeName
			}
		}
		return bound
	}
}

func (s scene) pods(ctx context.Context, g Gomega) []v1.Pod {
	var list v1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(s.name))).To(Succeed())
	return list.Items
}

// refused is how many pods are told that there is no volume for them.
func (s scene) refused(ctx context.Context) func(Gomega) int {
	return func(g Gomega) (n int) {
		for _, pod := range s.pods(ctx, g) {
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
					g.Expect(c.Message).To(HavePrefix("0/4 nodes are available: 4 node(s) didn't find available persistent volumes to bind."))
					n++
				}
			}
		}
		return n
	}
}

// expectOneEach says that each pod on a node has a volume that the node reaches,
// and that is no other's.
func (s scene) expectOneEach(ctx context.Context) {
	GinkgoHelper()
	var list v1.PersistentVolumeList
	Expect(admin.List(ctx, &list)).To(Succeed())
	byClaim, byName := map[string]string{}, map[string]v1.PersistentVolume{}
	for _, volume := range list.Items {
		byName[volume.Name] = volume
		if ref := volume.Spec.ClaimRef; ref != nil {
			Expect(byClaim).NotTo(HaveKey(ref.Name), "one volume a claim")
			byClaim[ref.Name] = volume.Name
		}
	}
	var claims v1.PersistentVolumeClaimList
	Expect(admin.List(ctx, &claims, client.InNamespace(s.name))).To(Succeed())
	holds := map[string]string{}
	for _, claim := range claims.Items {
		holds[claim.Name] = claim.Spec.VolumeName
	}
	bound := s.bound(ctx)(Default)
	for pod, node := range bound {
		claim := "c" + pod[1:]
		Expect(holds[claim]).NotTo(BeEmpty(), "the claim of a pod on a node is bound")
		Expect(byClaim).To(HaveKeyWithValue(claim, holds[claim]))
		terms := byName[holds[claim]].Spec.NodeAffinity.Required.NodeSelectorTerms
		Expect(terms[0].MatchExpressions[0].Values).To(ConsistOf(node), "its node reaches it")
	}
	Expect(byClaim).To(HaveLen(len(bound)), "nobody else has one")
}
