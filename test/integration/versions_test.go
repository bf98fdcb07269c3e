package integration

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// The spec follows docs/adr/0024-the-way-to-v1beta1.md with today's manager.
var _ = Describe("The migration to the next API version", func() {
	It("needs no conversion, and stops no profile", minutes, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 50 })
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		next := v1alpha1.Interchangeable[1]
		crds := apiextensions.NewForConfigOrDie(cp.Config()).CustomResourceDefinitions()
		profiles := dynamic.NewForConfigOrDie(cp.Config()).Resource(next.WithResource("schedulingprofiles"))

		By("both versions are served, and the next one is stored")
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
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "meanwhile")))

		By("all objects are written again, and the old version is removed from storedVersions")
		rewriteObjects(ctx, profiles, next.Version)
		setStoredVersion(ctx, crds, next.Version)
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 60 })
		expectReady(ctx, p)
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "afterwards")))

		By("the migration is reverted")
		serveAndStore(ctx, crds, v1alpha1.GroupVersion.Version, v1alpha1.GroupVersion.Version, next.Version)
		rewriteObjects(ctx, dynamic.NewForConfigOrDie(cp.Config()).Resource(v1alpha1.GroupVersion.WithResource("schedulingprofiles")), v1alpha1.GroupVersion.Version)
		setStoredVersion(ctx, crds, v1alpha1.GroupVersion.Version)
		serveAndStore(ctx, crds, v1alpha1.GroupVersion.Version, v1alpha1.GroupVersion.Version)
		expectReady(ctx, p)
	})
})

var _ = Describe("A profile of more than 64 KiB", func() {
	It("has a revision, and can be rolled back to it", minute, func(ctx SpecContext) {
		var resources, values []string
		for i := range 800 {
			resources = append(resources, fmt.Sprintf("a-domain-of-some-length.example.com/resource-%020d", i))
			values = append(values, fmt.Sprintf("a-value-of-some-length-%030d", i))
		}
		inline := func(plugin string, args any) v1alpha1.PluginArguments {
			text := rawJSON(args)
			return v1alpha1.PluginArguments{Name: plugin, Args: &text}
		}
		p := createProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig = []v1alpha1.PluginArguments{
				inline("NodeResourcesFit", map[string]any{"ignoredResources": resources}),
				inline("NodeAffinity", map[string]any{"addedAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
					"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "kind", "operator": "NotIn", "values": values}}}},
				}}}),
			}
		})
		expectReady(ctx, p)
		Expect(conditionMessage(p, v1alpha1.ConditionProgrammed)).NotTo(ContainSubstring("history is kept in memory only"))
		first := *p.Status.Programmed
		revision, err := cp.Client().AppsV1().ControllerRevisions(operator.Namespace).Get(ctx, first.Revision, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(len(revision.Data.Raw)).To(BeNumerically(">", 80_000))
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PluginConfig = nil })
		expectReady(ctx, p)
		Expect(cp.Kubectl(ctx, bytes.NewReader(revision.Data.Raw), "patch", "sprof", p.Name, "--type=merge", "--patch-file=/dev/stdin")).Error().NotTo(HaveOccurred())
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
	})
})

// serveAndStore has the API server serve these versions of SchedulingProfiles, with one
// schema, and store one of them.
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

// rewriteObjects writes each object unchanged, until etcd has it in the version that the API server
// stores now: it learns of a change of the CRD through a watch.
func rewriteObjects(ctx context.Context, objects dynamic.NamespaceableResourceInterface, version string) {
	GinkgoHelper()
	list, err := objects.List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(list.Items).NotTo(BeEmpty())
	for _, object := range list.Items {
		Eventually(func(g Gomega) {
			now, err := objects.Get(ctx, object.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(objects.Update(ctx, now, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
			var stored struct{ Kvs []struct{ Value []byte } }
			key := []byte("/registry/berth.dev/schedulingprofiles/" + object.GetName())
			g.Expect(cp.CallEtcd(ctx, "kv/range", map[string][]byte{"key": key}, &stored)).To(Succeed())
			g.Expect(stored.Kvs).To(ConsistOf(HaveField("Value", ContainSubstring(`"apiVersion":"berth.dev/`+version+`"`))))
		}).Should(Succeed(), object.GetName())
	}
}

// setStoredVersion sets the only version in the CRD's storedVersions.
func setStoredVersion(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, to string) {
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

var _ = Describe("An API server that does not serve every kind that plugins read", func() {
	It("has its pods scheduled, and profiles are Degraded with the missed events", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		// The API server needs other kinds, such as deviceclasses since 1.36, itself.
		lacking, err := cp.AnotherAPIServer(ctx, "--runtime-config=storage.k8s.io/v1/csistoragecapacities=false,storage.k8s.io/v1/csinodes=false")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(cp.Process("kube-apiserver")) })
		there := accountConfig(ctx)
		there.Host, there.TLSClientConfig = lacking.Host, lacking.TLSClientConfig

		env, p := newTestEnv(ctx), createProfile(ctx)
		stopManager()
		berth = runManager(there, nil, suiteOptions()...)
		DeferCleanup(func(ctx SpecContext) {
			stopManager()
			berth = startManager(ctx)
		})
		Eventually(currentConditions(ctx, p)).Should(ConsistOf(append(slices.Clone(readyConditions), "Degraded True EventsMissed")))
		Eventually(func(g Gomega) []string {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			return conditionMessages(p)
		}).Should(ContainElement(SatisfyAll(
			ContainSubstring("events of storage.k8s.io/CSIStorageCapacity are not received, so pods that VolumeBinding rejected may wait longer"),
			ContainSubstring("events of storage.k8s.io/CSINode are not received, so pods that NodeVolumeLimits or VolumeBinding rejected may wait longer"),
			ContainSubstring("could not find the requested resource"),
		)))

		By("a pod with a volume and one without")
		class := apitest.Created(ctx, admin, fixture.StorageClass(env.namespace+"-there", "")).Name
		claim := apitest.Created(ctx, admin, withoutIdentity(fixture.Claim(env.namespace+"/data", class).Obj()))
		disk := apitest.Created(ctx, admin, withoutIdentity(fixture.Volume(env.namespace+"-disk", class).BoundTo(claim).Obj()))
		apitest.Change(ctx, admin, claim, func(c *v1.PersistentVolumeClaim) { bindClaim(c, disk.Name) })
		createNode(ctx, env.node("n"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "web")), createPod(ctx, env.pod(p, "db").Claim("data")))
	})
})

// conditionMessages returns the messages of a profile's conditions.
func conditionMessages(p *v1alpha1.SchedulingProfile) (all []string) {
	for _, c := range p.Status.Conditions {
		all = append(all, c.Message)
	}
	return all
}
