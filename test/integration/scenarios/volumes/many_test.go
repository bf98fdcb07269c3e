package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = DescribeTable("50 pods of three claims each are bound with their volumes:",
	func(ctx SpecContext, setUp func(ctx context.Context, env testEnv, n int) (claims []client.Object, serve func(*v1.PersistentVolumeClaim) *v1.PersistentVolume)) {
		const pods = 50
		env := newTestEnv(ctx, 1)
		claims, serve := setUp(ctx, env, 3*pods)
		env.create(ctx, claims...)
		defer env.runProvisioner(ctx, serve)()
		defer env.updateNodeRepeatedly(ctx, "n0")()
		for i := range pods {
			env.create(ctx, env.pod(fmt.Sprint("p", i), claims[3*i].GetName(), claims[3*i+1].GetName(), claims[3*i+2].GetName()))
		}
		Eventually(env.boundPods(ctx)).Should(HaveLen(pods))
		// kube-controller-manager writes the phase after what the pods' bindings wait for.
		Eventually(func(g Gomega) {
			var list v1.PersistentVolumeClaimList
			g.Expect(admin.List(ctx, &list, client.InNamespace(env.namespace))).To(Succeed())
			holders := map[string]string{}
			for _, claim := range list.Items {
				g.Expect(claim.Status.Phase).To(Equal(v1.ClaimBound), claim.Name)
				g.Expect(holders).NotTo(HaveKey(claim.Spec.VolumeName), "one volume for each claim")
				holders[claim.Spec.VolumeName] = claim.Name
			}
			g.Expect(holders).To(HaveLen(3 * pods))
		}).Should(Succeed())
	},
	Entry("half of the volumes are free, half are reserved for one claim each", specTimeout, mixedVolumes),
	Entry("volumes are provisioned at once", specTimeout, func(ctx context.Context, env testEnv, n int) ([]client.Object, func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) {
		return env.claimsToProvision(ctx, n), env.provisionOnSelectedNode
	}),
	Entry("volumes are provisioned when all pods wait for theirs", specTimeout, func(ctx context.Context, env testEnv, n int) ([]client.Object, func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) {
		chosen := map[types.UID]bool{}
		return env.claimsToProvision(ctx, n), func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
			if claim.Annotations[volume.AnnSelectedNode] != "" {
				chosen[claim.UID] = true
			}
			if len(chosen) < n {
				return nil
			}
			return env.provisionOnSelectedNode(claim)
		}
	}),
)

// mixedVolumes creates n volumes: every other one is reserved for a claim of an immediate
// class, which names it.
func mixedVolumes(ctx context.Context, env testEnv, n int) (claims []client.Object, serve func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) {
	waits, once := fixture.StorageClass(env.namespace+"-waits", ""), fixture.ImmediateStorageClass(env.namespace+"-once", "")
	env.create(ctx, waits, once)
	for i := range n {
		class := []string{waits.Name, once.Name}[i%2]
		claim, v := env.claim(fmt.Sprint("c", i), class).Obj(), env.volume(fmt.Sprint("v", i), class, 0).Obj()
		if i%2 == 1 {
			claimNamesVolume(claim, v)
			volumeNamesClaim(claim, v)
		}
		env.create(ctx, v)
		claims = append(claims, claim)
	}
	return claims, env.provisionOnSelectedNode
}

// claimsToProvision returns n claims whose volumes are provisioned on the selected node.
func (env testEnv) claimsToProvision(ctx context.Context, n int) (claims []client.Object) {
	class := fixture.StorageClass(env.namespace, testProvisioner)
	env.create(ctx, class)
	for i := range n {
		claims = append(claims, env.claim(fmt.Sprint("c", i), class.Name).Obj())
	}
	return claims
}

// updateNodeRepeatedly changes a node again and again, so that pods are requeued
// independently of their volumes.
func (env testEnv) updateNodeRepeatedly(ctx context.Context, name string) (stop func()) {
	n := 0
	return env.repeat(ctx, func() {
		n++
		patch := fmt.Sprintf(`{"metadata":{"labels":{"stirred":"%d"}}}`, n)
		Expect(admin.Patch(ctx, fixture.Node(name).Obj(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	})
}

var _ = Describe("Pods with a claim each", func() {
	It("and anti-affinity to each other get different nodes, although one node has most volumes", specTimeout, func(ctx SpecContext) {
		const nodes = 10
		env := newTestEnv(ctx, nodes)
		class := fixture.StorageClass(env.namespace, "")
		env.create(ctx, class)
		for i := range 5 * nodes {
			env.create(ctx, env.volume(fmt.Sprint("many", i), class.Name, 0).Obj())
		}
		for i := 1; i < nodes; i++ {
			env.create(ctx, env.volume(fmt.Sprint("one", i), class.Name, i).Obj())
		}
		for i := range nodes {
			env.createPodWithAffinity(ctx, i, func(term v1.PodAffinityTerm) *v1.Affinity {
				return fixture.Pod("any").RequirePodAntiAffinity(term).Obj().Spec.Affinity
			})
		}
		Eventually(env.boundPods(ctx)).Should(HaveLen(nodes))
		Expect(slices.Compact(slices.Sorted(maps.Values(env.boundPods(ctx)(Default))))).To(HaveLen(nodes))
	})

	It("and affinity to each other get the same node, which has a volume for each", specTimeout, func(ctx SpecContext) {
		const pods = 10
		env := newTestEnv(ctx, pods)
		class := fixture.StorageClass(env.namespace, "")
		env.create(ctx, class)
		for i := range pods * pods {
			env.create(ctx, env.volume(fmt.Sprint("v", i), class.Name, i%pods).Obj())
		}
		for i := range pods {
			env.createPodWithAffinity(ctx, i, func(term v1.PodAffinityTerm) *v1.Affinity {
				return fixture.Pod("any").RequirePodAffinity(term).Obj().Spec.Affinity
			})
		}
		Eventually(env.boundPods(ctx)).Should(HaveLen(pods))
		Expect(slices.Compact(slices.Sorted(maps.Values(env.boundPods(ctx)(Default))))).To(HaveLen(1))
	})
})

// createPodWithAffinity creates a pod with a claim and an affinity to the other pods.
func (env testEnv) createPodWithAffinity(ctx context.Context, i int, affinity func(v1.PodAffinityTerm) *v1.Affinity) {
	GinkgoHelper()
	claim := env.claim(fmt.Sprint("c", i), env.namespace).Obj()
	pod := env.pod(fmt.Sprint("p", i), claim.Name)
	pod.Labels = map[string]string{"app": "affine"}
	pod.Spec.Affinity = affinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "affine"))
	env.create(ctx, claim, pod)
}

var _ = Describe("200 pods with claims for 100 volumes, while their profile is swapped,", func() {
	const pods, volumes, nodes = 200, 100, 4

	It("get one volume each, and no pod is lost", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, nodes)
		env.create(ctx, fixture.StorageClass("race", ""))
		env.addVolumes(ctx, "first", volumes, nodes)
		env.expectAvailable(ctx, volumes)

		over := make(chan struct{})
		var swaps sync.WaitGroup
		swaps.Go(func() {
			defer GinkgoRecover()
			for n := int32(4); ; n++ {
				applyProfile(ctx, n%7)
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
			env.create(ctx, env.claim(fmt.Sprint("c", i), "race").Obj(), env.pod(fmt.Sprint("p", i), fmt.Sprint("c", i)))
		}
		Eventually(env.boundPods(ctx)).Should(HaveLen(volumes))
		Eventually(env.unschedulableCount(ctx)).Should(Equal(pods - volumes))
		env.expectOneEach(ctx)
		end()

		By("more volumes are created")
		env.addVolumes(ctx, "second", volumes, nodes)
		Eventually(env.boundPods(ctx)).Should(HaveLen(pods))
		env.expectOneEach(ctx)
	})
})

// addVolumes creates volumes on the nodes in turn.
func (env testEnv) addVolumes(ctx context.Context, prefix string, volumes, nodes int) {
	GinkgoHelper()
	for i := range volumes {
		env.create(ctx, env.volume(fmt.Sprint(prefix, i), "race", i%nodes).Obj())
	}
}

// boundPods returns the nodes of the bound pods by name.
func (env testEnv) boundPods(ctx context.Context) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		bound := map[string]string{}
		for _, pod := range env.listPods(ctx, g) {
			if pod.Spec.NodeName != "" {
				bound[pod.Name] = pod.Spec.NodeName
			}
		}
		return bound
	}
}

func (env testEnv) listPods(ctx context.Context, g Gomega) []v1.Pod {
	var list v1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(env.namespace))).To(Succeed())
	return list.Items
}

// unschedulableCount returns the number of pods whose condition says that there is no
// volume.
func (env testEnv) unschedulableCount(ctx context.Context) func(Gomega) int {
	return func(g Gomega) (n int) {
		for _, pod := range env.listPods(ctx, g) {
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

// expectOneEach expects each bound pod to have a volume of its own that its node reaches.
func (env testEnv) expectOneEach(ctx context.Context) {
	GinkgoHelper()
	var list v1.PersistentVolumeList
	Expect(admin.List(ctx, &list)).To(Succeed())
	byClaim, byName := map[string]string{}, map[string]v1.PersistentVolume{}
	for _, volume := range list.Items {
		byName[volume.Name] = volume
		if ref := volume.Spec.ClaimRef; ref != nil {
			Expect(byClaim).NotTo(HaveKey(ref.Name), "one volume for each claim")
			byClaim[ref.Name] = volume.Name
		}
	}
	var claims v1.PersistentVolumeClaimList
	Expect(admin.List(ctx, &claims, client.InNamespace(env.namespace))).To(Succeed())
	holds := map[string]string{}
	for _, claim := range claims.Items {
		holds[claim.Name] = claim.Spec.VolumeName
	}
	bound := env.boundPods(ctx)(Default)
	for pod, node := range bound {
		claim := "c" + pod[1:]
		Expect(holds[claim]).NotTo(BeEmpty(), "the claim of a bound pod is bound")
		Expect(byClaim).To(HaveKeyWithValue(claim, holds[claim]))
		terms := byName[holds[claim]].Spec.NodeAffinity.Required.NodeSelectorTerms
		Expect(terms[0].MatchExpressions[0].Values).To(ConsistOf(node), "its node reaches it")
	}
	Expect(byClaim).To(HaveLen(len(bound)), "no other claim has a volume")
}
