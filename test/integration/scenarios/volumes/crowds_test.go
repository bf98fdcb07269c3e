package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = DescribeTable("50 pods of three claims each all have theirs:",
	func(ctx SpecContext, stage func(ctx context.Context, s scene, n int) (claims []client.Object, serve func(*v1.PersistentVolumeClaim) *v1.PersistentVolume)) {
		const pods = 50
		s := aScene(ctx, 1)
		claims, serve := stage(ctx, s, 3*pods)
		s.create(ctx, claims...)
		defer s.provisioner(ctx, serve)()
		defer s.stirring(ctx, "n0")()
		for i := range pods {
			s.create(ctx, s.pod(fmt.Sprint("p", i), claims[3*i].GetName(), claims[3*i+1].GetName(), claims[3*i+2].GetName()))
		}
		Eventually(s.bound(ctx)).Should(HaveLen(pods))
		var list v1.PersistentVolumeClaimList
		Expect(admin.List(ctx, &list, client.InNamespace(s.name))).To(Succeed())
		holders := map[string]string{}
		for _, claim := range list.Items {
			Expect(claim.Status.Phase).To(Equal(v1.ClaimBound), claim.Name)
			Expect(holders).NotTo(HaveKey(claim.Spec.VolumeName), "one volume a claim")
			holders[claim.Spec.VolumeName] = claim.Name
		}
		Expect(holders).To(HaveLen(3 * pods))
	},
	Entry("half of them are there for whoever takes them, half for one claim each", minutes, aSupply),
	Entry("they are made as soon as they are wanted", minutes, func(ctx context.Context, s scene, n int) ([]client.Object, func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) {
		return s.toBeMade(ctx, n), s.whereChosen
	}),
	Entry("they are made late, when all pods wait for theirs", minutes, func(ctx context.Context, s scene, n int) ([]client.Object, func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) {
		chosen := map[types.UID]bool{}
		return s.toBeMade(ctx, n), func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
			if claim.Annotations[volume.AnnSelectedNode] != "" {
				chosen[claim.UID] = true
			}
			if len(chosen) < n {
				return nil
			}
			return s.whereChosen(claim)
		}
	}),
)

// aSupply has n volumes: every other one names a claim that is bound at once and
// names it, too.
func aSupply(ctx context.Context, s scene, n int) (claims []client.Object, serve func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) {
	waits, once := fixture.StorageClass(s.name+"-waits", ""), fixture.ImmediateStorageClass(s.name+"-once", "")
	s.create(ctx, waits, once)
	for i := range n {
		class := []string{waits.Name, once.Name}[i%2]
		claim, v := s.claim(fmt.Sprint("c", i), class).Obj(), s.volume(fmt.Sprint("v", i), class, 0).Obj()
		if i%2 == 1 {
			theClaimNamesIt(claim, v)
			itNamesTheClaim(claim, v)
		}
		s.create(ctx, v)
		claims = append(claims, claim)
	}
	return claims, s.whereChosen
}

// toBeMade are n claims for which volumes are made on the node that is chosen.
func (s scene) toBeMade(ctx context.Context, n int) (claims []client.Object) {
	class := fixture.StorageClass(s.name, played)
	s.create(ctx, class)
	for i := range n {
		claims = append(claims, s.claim(fmt.Sprint("c", i), class.Name).Obj())
	}
	return claims
}

// stirring changes a node again and again, so that pods are tried whatever
// becomes of their volumes.
func (s scene) stirring(ctx context.Context, name string) (stop func()) {
	n := 0
	return s.beside(ctx, func() {
		n++
		patch := fmt.Sprintf(`{"metadata":{"labels":{"stirred":"%d"}}}`, n)
		Expect(admin.Patch(ctx, fixture.Node(name).Obj(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	})
}

var _ = Describe("Pods with a claim each", func() {
	It("that avoid each other are all on nodes of their own, wherever most volumes are", minutes, func(ctx SpecContext) {
		const nodes = 10
		s := aScene(ctx, nodes)
		class := fixture.StorageClass(s.name, "")
		s.create(ctx, class)
		for i := range 5 * nodes {
			s.create(ctx, s.volume(fmt.Sprint("many", i), class.Name, 0).Obj())
		}
		for i := 1; i < nodes; i++ {
			s.create(ctx, s.volume(fmt.Sprint("one", i), class.Name, i).Obj())
		}
		for i := range nodes {
			s.companion(ctx, i, func(term v1.PodAffinityTerm) *v1.Affinity {
				return fixture.Pod("any").RequirePodAntiAffinity(term).Obj().Spec.Affinity
			})
		}
		Eventually(s.bound(ctx)).Should(HaveLen(nodes))
		Expect(slices.Compact(slices.Sorted(maps.Values(s.bound(ctx)(Default))))).To(HaveLen(nodes))
	})

	It("that seek each other are all on one node, which has a volume for each", minutes, func(ctx SpecContext) {
		const pods = 10
		s := aScene(ctx, pods)
		class := fixture.StorageClass(s.name, "")
		s.create(ctx, class)
		for i := range pods * pods {
			s.create(ctx, s.volume(fmt.Sprint("v", i), class.Name, i%pods).Obj())
		}
		for i := range pods {
			s.companion(ctx, i, func(term v1.PodAffinityTerm) *v1.Affinity {
				return fixture.Pod("any").RequirePodAffinity(term).Obj().Spec.Affinity
			})
		}
		Eventually(s.bound(ctx)).Should(HaveLen(pods))
		Expect(slices.Compact(slices.Sorted(maps.Values(s.bound(ctx)(Default))))).To(HaveLen(1))
	})
})

// companion is a pod with a claim that minds, in its own way, where the others
// are.
func (s scene) companion(ctx context.Context, i int, minds func(v1.PodAffinityTerm) *v1.Affinity) {
	GinkgoHelper()
	claim := s.claim(fmt.Sprint("c", i), s.name).Obj()
	pod := s.pod(fmt.Sprint("p", i), claim.Name)
	pod.Labels = map[string]string{"app": "company"}
	pod.Spec.Affinity = minds(fixture.PodAffinityTerm(v1.LabelHostname, "app", "company"))
	s.create(ctx, claim, pod)
}
