package volumes

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

// scene is what one scenario has put into the cluster, in a namespace and with
// classes of its own.
type scene struct{ name string }

// aScene has nodes n0, n1 and so on, on which any number of pods have room.
func aScene(ctx context.Context, nodes int) scene {
	GinkgoHelper()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scene-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	s := scene{namespace.Name}
	for i := range nodes {
		s.create(ctx, fixture.Node(fmt.Sprint("n", i)).Capacity("pods", "1000").Obj())
	}
	DeferCleanup(func(ctx SpecContext) {
		now := client.GracePeriodSeconds(0)
		Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(s.name), now)).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.Node{})).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.PersistentVolumeClaim{}, client.InNamespace(s.name))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.PersistentVolume{})).To(Succeed())
		Eventually(func(g Gomega) []v1.PersistentVolume {
			var left v1.PersistentVolumeList
			g.Expect(admin.List(ctx, &left)).To(Succeed())
			return left.Items
		}).Should(BeEmpty())
	}, NodeTimeout(patience))
	return s
}

// create creates what is meant to be as it is written, status included.
func (s scene) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		object.SetUID("")
		object.SetResourceVersion("")
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
}

// volume is one of a class, on a node.
func (s scene) volume(name, class string, node int) *fixture.VolumeBuilder {
	return fixture.Volume(s.name+"-"+name, class).NodeAffinity(v1.LabelHostname, fmt.Sprint("n", node))
}

func (s scene) claim(name, class string) *fixture.ClaimBuilder {
	return fixture.Claim(s.name+"/"+name, class)
}

// pod is one that uses claims.
func (s scene) pod(name string, claims ...string) *v1.Pod {
	builder := fixture.Pod(s.name + "/" + name).SchedulerName(usual)
	for _, claim := range claims {
		builder.Claim(claim)
	}
	return builder.Valid()
}

// available waits until the controller has seen the volumes.
func (s scene) available(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func(g Gomega) (free int) {
		var list v1.PersistentVolumeList
		g.Expect(admin.List(ctx, &list)).To(Succeed())
		for i := range list.Items {
			if list.Items[i].Status.Phase == v1.VolumeAvailable {
				free++
			}
		}
		return free
	}).Should(Equal(n))
}

// phases waits until the controller has volumes in a phase.
func (s scene) phases(ctx context.Context, phase v1.PersistentVolumePhase, volumes ...string) {
	GinkgoHelper()
	for _, name := range volumes {
		Eventually(func(g Gomega) v1.PersistentVolumePhase {
			var is v1.PersistentVolume
			g.Expect(admin.Get(ctx, types.NamespacedName{Name: s.name + "-" + name}, &is)).To(Succeed())
			return is.Status.Phase
		}).Should(Equal(phase), name)
	}
}

// held is the volume that a claim holds.
func (s scene) held(ctx context.Context, claim string) func(Gomega) string {
	return func(g Gomega) string {
		var is v1.PersistentVolumeClaim
		g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: s.name, Name: claim}, &is)).To(Succeed())
		return is.Spec.VolumeName
	}
}
