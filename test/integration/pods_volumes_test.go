package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// No controller binds claims here, so a spec says itself what one would: what
// Berth writes for it, and waits for, is seen alone. test/integration/scenarios/volumes has the
// real one.
var _ = Describe("A pod whose claim waits for its first consumer", func() {
	It("is promised a volume that is there, and bound when the claim is", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		expectReady(ctx, p)
		class := apitest.Created(ctx, admin, fixture.StorageClass(y.name+"-there", "")).Name
		disk := apitest.Created(ctx, admin, fresh(fixture.Volume(y.name+"-disk", class).Obj()))
		disk.Status.Phase = v1.VolumeAvailable
		Expect(admin.Status().Update(ctx, disk)).To(Succeed())
		claim := apitest.Created(ctx, admin, fresh(fixture.Claim(y.name+"/data", class).Obj()))
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "db").Claim("data"))

		Eventually(func(g Gomega) *v1.ObjectReference {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(disk), disk)).To(Succeed())
			return disk.Spec.ClaimRef
		}).Should(HaveValue(HaveField("UID", claim.UID)))
		Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())
		apitest.Change(ctx, admin, claim, func(c *v1.PersistentVolumeClaim) { isBoundTo(c, disk.Name) })
		admin.ExpectBound(ctx, pod)
	})

	It("has its node written for whoever makes volumes, and is bound when one is made", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		expectReady(ctx, p)
		class := apitest.Created(ctx, admin, fixture.StorageClass(y.name+"-made", "csi.example.com")).Name
		claim := apitest.Created(ctx, admin, fresh(fixture.Claim(y.name+"/data", class).Obj()))
		node := aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "db").Claim("data"))

		Eventually(func(g Gomega) map[string]string {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			return claim.Annotations
		}).Should(HaveKeyWithValue(volume.AnnSelectedNode, node.Name))
		Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())
		made := apitest.Created(ctx, admin, fresh(fixture.Volume(y.name+"-made", class).BoundTo(claim).Obj()))
		apitest.Change(ctx, admin, claim, func(c *v1.PersistentVolumeClaim) { isBoundTo(c, made.Name) })
		admin.ExpectBound(ctx, pod)
	})
})

// fresh is an object as a user would create it.
func fresh[T client.Object](object T) T {
	object.SetUID("")
	object.SetResourceVersion("")
	return object
}

// isBoundTo says of a claim what kube-controller-manager does.
func isBoundTo(claim *v1.PersistentVolumeClaim, name string) {
	claim.Spec.VolumeName = name
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[volume.AnnBindCompleted] = "yes"
}
