package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/badinput"
)

var _ = Describe("Bad input", func() {
	cases, err := badinput.Cases()
	if err != nil {
		panic(err) // Ginkgo builds its tree before it can fail
	}
	for _, c := range cases {
		It(c.Description, minute, func(ctx SpecContext) {
			for _, object := range c.Objects[:len(c.Objects)-1] {
				Expect(apply(ctx, object)).To(Succeed())
			}
			err := apply(ctx, c.Bad())
			if c.Refused {
				Expect(err).To(MatchError(ContainSubstring(c.Message)))
				return
			}
			Expect(err).NotTo(HaveOccurred())
			Eventually(verdict(ctx, c)).Should(SatisfyAll(
				HaveField("Reason", c.Reason), HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring(c.Message))))
		})
	}
})

// apply creates or changes an object as `kubectl apply --server-side` does.
func apply(ctx SpecContext, object *unstructured.Unstructured) error {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, object.DeepCopy()))).To(Succeed())
	})
	return admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("integration"))
}

// verdict is the condition that a case speaks about.
func verdict(ctx SpecContext, c badinput.Case) func(g Gomega) any {
	return func(g Gomega) any {
		var object client.Object = &v1alpha1.SchedulingProfile{}
		if strings.EqualFold(c.Bad().GetKind(), "PluginConfig") {
			object = &v1alpha1.PluginConfig{}
		}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(c.Bad()), object)).To(Succeed())
		return meta.FindStatusCondition(conditions(object), c.Condition)
	}
}
