package swap

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins/gangscheduling"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// gangChanges are the changes that meet every place of a gang.
var gangChanges = []string{"arguments change", "a change is reverted", "the profile is paused", "the profile is deleted"}

// gangCells returns the cells whose pod is the third of a gang of four.
func gangCells() (all []*cell) {
	for n, place := range slices.Sorted(maps.Keys(swapmatrix.GangPlaces)) {
		for m, change := range gangChanges {
			c := newCell(fmt.Sprintf("gang-%d-%d", n, m), place, change)
			c.place, c.inGang = swapmatrix.GangPlaces[place], true
			swapmatrix.Enable(&c.spec.Plugins.MultiPoint, gangscheduling.Name)
			all = append(all, c)
		}
	}
	return all
}

var _ = Describe("A pod of a gang beside a stream of others", func() {
	for _, c := range cells {
		if c.inGang {
			c.itEnds("is bound with its gang by one generation")
		}
	}
})

// createGang creates the pod as the third of four that name a group.
func (c *cell) createGang() {
	annotations := map[string]string{v1alpha1.AnnotationPodGroup: "gang", v1alpha1.AnnotationPodGroupMinCount: "4"}
	for _, name := range []string{"first", "second", subject, "fourth"} {
		if pod := c.createPod(name, maps.Clone(annotations)); name == subject {
			c.pod = pod
		} else {
			c.gang = append(c.gang, pod)
		}
	}
}

// expectGang expects the other pods of the gang to be bound once, by the hash that bound the
// pod.
func (c *cell) expectGang() {
	for _, pod := range c.gang {
		c.eventually(func(g Gomega) { g.Expect(podHistory.of(pod.UID).bindings).NotTo(BeEmpty()) }, pod.Name+" is bound")
		history := podHistory.of(pod.UID)
		c.Expect(history.bindings).To(HaveLen(1), pod.Name+": how often it got a node")
		c.Expect(c.readRecord(history.last).Hash).To(Equal(c.readRecord(podHistory.of(c.pod.UID).last).Hash), pod.Name+": the hash that bound it")
		c.Eventually(func() []int { return c.bindingCodes(pod.Name) }).Should(HaveExactElements(201), pod.Name+": one Binding is sent, and succeeds")
	}
}
