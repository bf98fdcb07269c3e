package volumes

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// On each node there are two volumes, and those of n2 hold the most.
var sizes = [3][2]string{{"100Gi", "50Gi"}, {"100Gi", "100Gi"}, {"200Gi", "200Gi"}}

var _ = DescribeTable("Of nodes with volumes for a pod the one is best whose volumes hold the most:",
	func(ctx SpecContext, zonal bool, classes []string, asks ...string) {
		s := aScene(ctx, 0)
		for i := range sizes {
			s.create(ctx, fixture.Node(fmt.Sprint("n", i)).Zone(fmt.Sprint("z", i)).Label(v1.LabelTopologyRegion, fmt.Sprint("r", i)).Capacity("pods", "10").Obj())
		}
		for _, class := range classes {
			s.create(ctx, fixture.StorageClass(s.name+"-"+class, ""))
		}
		var volumes []string
		for i, both := range sizes {
			for j, size := range both {
				name := fmt.Sprintf("v%d-%d", i, j)
				v := s.volume(name, s.name+"-"+classes[j%len(classes)], i).Capacity(size)
				if zonal {
					v = v.NodeAffinity(v1.LabelTopologyZone, fmt.Sprint("z", i)).Mutate(inRegion(fmt.Sprint("r", i)))
				}
				s.create(ctx, v.Obj())
				volumes = append(volumes, name)
			}
		}
		s.phases(ctx, v1.VolumeAvailable, volumes...)
		var claims []string
		for i, size := range asks {
			claims = append(claims, fmt.Sprint("c", i))
			s.create(ctx, s.claim(claims[i], s.name+"-"+classes[i%len(classes)]).Requests(size).Obj())
		}
		pod := s.pod("web", claims...)
		s.create(ctx, pod)
		Eventually(admin.Place(ctx, pod)).Should(Equal("n2"))
	},
	Entry("for one claim", minutes, false, []string{"ssd"}, "20Gi"),
	Entry("for two claims", minutes, false, []string{"ssd"}, "80Gi", "80Gi"),
	Entry("for two claims of two classes", minutes, false, []string{"ssd", "hdd"}, "50Gi", "50Gi"),
	Entry("for two claims of two classes, of volumes that whole zones reach", minutes, true, []string{"ssd", "hdd"}, "50Gi", "50Gi"),
)

func inRegion(region string) func(*v1.PersistentVolume) {
	return func(volume *v1.PersistentVolume) {
		term := &volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0]
		term.MatchExpressions = append(term.MatchExpressions, fixture.In(v1.LabelTopologyRegion, region))
	}
}

var _ = Describe("Of nodes on which a volume can be made for a pod", func() {
	It("the one is best where its own driver has the most room", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		a, b := s.ofDriver(ctx, "a", true), s.ofDriver(ctx, "b", true)
		s.untilHeardOf(ctx, a)
		s.untilHeardOf(ctx, b)
		// In this order, so that who has heard of a part decides no other way.
		s.capacity(ctx, a, "n0", "12Gi")
		s.capacity(ctx, b, "n1", "12Gi")
		s.capacity(ctx, a, "n1", "6Gi")
		s.capacity(ctx, b, "n0", "6Gi")
		ofA, ofB := s.pod("of-a", "a"), s.pod("of-b", "b")
		s.create(ctx, s.claim("a", a).Requests("5Gi").Obj(), s.claim("b", b).Requests("5Gi").Obj(), ofA, ofB)
		defer s.provisioner(ctx, s.whereChosen)()
		Eventually(admin.Place(ctx, ofA)).Should(Equal("n0"))
		Eventually(admin.Place(ctx, ofB)).Should(Equal("n1"))
	})

	It("what one driver says of its room is nothing to the claims of another that says nothing", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		says, silent := s.ofDriver(ctx, "says", true), s.ofDriver(ctx, "silent", false)
		s.untilHeardOf(ctx, says)
		s.capacity(ctx, says, "n0", "12Gi")
		ofOne, ofOther := s.pod("of-one", "one"), s.pod("of-other", "other")
		ofOther.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"}
		s.create(ctx, s.claim("one", says).Requests("5Gi").Obj(), s.claim("other", silent).Requests("5Gi").Obj(), ofOne, ofOther)
		defer s.provisioner(ctx, s.whereChosen)()
		Eventually(admin.Place(ctx, ofOne)).Should(Equal("n0"))
		Eventually(admin.Place(ctx, ofOther)).Should(Equal("n1"))
	})
})
