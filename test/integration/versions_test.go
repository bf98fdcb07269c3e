package integration

import (
	"bytes"
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/operator"
)

// What docs/adr/0024-the-way-to-v1beta1.md says, in its order, under a manager of today.
var _ = Describe("The way to the next version of the API", func() {
	It("is gone without a conversion, and stops no profile", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 50 })
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		next := v1alpha1.Interchangeable[1]
		crds := apiextensions.NewForConfigOrDie(cp.Config()).CustomResourceDefinitions()
		profiles := dynamic.NewForConfigOrDie(cp.Config()).Resource(next.WithResource("schedulingprofiles"))

		By("serving both, stored as the next")
		DeferCleanup(func(ctx SpecContext) {
			serveAndStore(ctx, crds, v1alpha1.GroupVersion.Version, v1alpha1.GroupVersion.Version)
		})
		serveAndStore(ctx, crds, next.Version, v1alpha1.GroupVersion.Version, next.Version)
		var converted *unstructured.Unstructured
		Eventually(func() (err error) {
			converted, err = profiles.Get(ctx, p.Name, metav1.GetOptions{})
			return err
		}).Should(Succeed())
		was := &unstructured.Unstructured{}
		was.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), was)).To(Succeed())
		Expect(converted.Object["spec"]).To(Equal(was.Object["spec"]))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "meanwhile")))

		By("writing every object again, and forgetting the version that none is stored as")
		storeAgain(ctx, profiles)
		trimStored(ctx, crds, next.Version)
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 60 })
		expectReady(ctx, p)
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "afterwards")))

		By("going back")
		serveAndStore(ctx, crds, v1alpha1.GroupVersion.Version, v1alpha1.GroupVersion.Version, next.Version)
		storeAgain(ctx, dynamic.NewForConfigOrDie(cp.Config()).Resource(v1alpha1.GroupVersion.WithResource("schedulingprofiles")))
		trimStored(ctx, crds, v1alpha1.GroupVersion.Version)
		serveAndStore(ctx, crds, v1alpha1.GroupVersion.Version, v1alpha1.GroupVersion.Version)
		expectReady(ctx, p)
	})
})

var _ = Describe("A profile of more than 64 KiB", func() {
	It("has a revision, and goes back to it", minute, func(ctx SpecContext) {
		var resources, values []string
		for i := range 800 {
			resources = append(resources, fmt.Sprintf("a-domain-of-some-length.example.com/resource-%020d", i))
			values = append(values, fmt.Sprintf("a-value-of-some-length-%030d", i))
		}
		inline := func(plugin string, args any) v1alpha1.PluginArguments {
			text := raw(args)
			return v1alpha1.PluginArguments{Name: plugin, Args: &text}
		}
		p := aProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig = []v1alpha1.PluginArguments{
				inline("NodeResourcesFit", map[string]any{"ignoredResources": resources}),
				inline("NodeAffinity", map[string]any{"addedAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
					"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "kind", "operator": "NotIn", "values": values}}}},
				}}}),
			}
		})
		expectReady(ctx, p)
		Expect(message(p, v1alpha1.ConditionProgrammed)).NotTo(ContainSubstring("history is kept in memory only"))
		first := *p.Status.Programmed
		revision, err := cp.Client().AppsV1().ControllerRevisions(operator.Namespace).Get(ctx, first.Revision, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(len(revision.Data.Raw)).To(BeNumerically(">", 80_000))
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PluginConfig = nil })
		expectReady(ctx, p)
		Expect(cp.Kubectl(ctx, bytes.NewReader(revision.Data.Raw), "patch", "sprof", p.Name, "--type=merge", "--patch-file=/dev/stdin")).Error().NotTo(HaveOccurred())
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
	})
})

// serveAndStore has the API server serve SchedulingProfiles under some versions, of one
// schema, and store them as one of those.
func serveAndStore(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, stored string, served ...string) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd, err := crds.Get(ctx, "schedulingprofiles.berth.dev", metav1.GetOptions{})
		if err != nil {
			return err
		}
		schema := crd.Spec.Versions[0]
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		crd.Spec.Versions = nil
		for _, name := range served {
			version := *schema.DeepCopy()
			version.Name, version.Served, version.Storage = name, true, name == stored
			crd.Spec.Versions = append(crd.Spec.Versions, version)
		}
		_, err = crds.Update(ctx, crd, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}

// storeAgain writes every object as it is, so that it is stored as the CRD says now.
func storeAgain(ctx context.Context, objects dynamic.NamespaceableResourceInterface) {
	GinkgoHelper()
	list, err := objects.List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(list.Items).NotTo(BeEmpty())
	for _, object := range list.Items {
		Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now, err := objects.Get(ctx, object.GetName(), metav1.GetOptions{})
			if err != nil {
				return client.IgnoreNotFound(err)
			}
			_, err = objects.Update(ctx, now, metav1.UpdateOptions{})
			return err
		})).To(Succeed())
	}
}

// trimStored has the CRD forget every version but one that objects may be stored as.
func trimStored(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, to string) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd, err := crds.Get(ctx, "schedulingprofiles.berth.dev", metav1.GetOptions{})
		if err != nil {
			return err
		}
		crd.Status.StoredVersions = []string{to}
		_, err = crds.UpdateStatus(ctx, crd, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}
