package course

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Among many that wait, one that matters more", func() {
	It("gets the room that it makes before those who waited longer", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "500m"))
		var run, wait []*v1.Pod
		for i := range 5 {
			run = append(run, bound(ctx, p, ranked(fmt.Sprint("runs-", i), "middle").Requests("cpu", "100m"))...)
		}
		for i := range 5 {
			wait = append(wait, aPod(ctx, p, ranked(fmt.Sprint("waits-", i), "middle").Requests("cpu", "100m")))
		}
		expectRefused(ctx, wait...)
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "300m"))
		admin.ExpectBound(ctx, high)
		expectRefused(ctx, wait...)
		Expect(missing(ctx, run)).To(Equal(3), "so many had to go")
	})

	for round := range 5 {
		It(fmt.Sprintf("loses nothing of it to twenty that come meanwhile, round %d of 5", round+1), minute, func(ctx SpecContext) {
			p := aProfile(ctx)
			aNode(ctx, node("n").Capacity("cpu", "5"))
			low := bound(ctx, p, ranked("first", "middle").Requests("cpu", "100m"), ranked("second", "middle").Requests("cpu", "100m"))
			high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4900m"))
			var late []*v1.Pod
			for i := range 20 {
				late = append(late, aPod(ctx, p, ranked(fmt.Sprint("late-", i), "middle").Requests("cpu", "200m")))
			}
			admin.ExpectBound(ctx, high)
			expectRefused(ctx, late...)
			Expect(promised(ctx, high)(Default)).To(BeEmpty())
			Expect(missing(ctx, low)).To(BeNumerically(">=", 1), "so many had to go")
		})
	}
})

// missing is how many of pods are not there any more.
func missing(ctx context.Context, pods []*v1.Pod) (n int) {
	for _, pod := range pods {
		if apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)) {
			n++
		}
	}
	return n
}
