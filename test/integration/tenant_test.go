package integration

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/berthdev/berth/test/support/apitest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// What is wrong with a pod has much to do with others: whose room it lacks, who
// keeps away from it, who would have to leave for it.
var _ = Describe("Who may read all of one namespace", func() {
	It("learns why its pods wait, and no name of anything foreign", minute, func(ctx SpecContext) {
		there, here, p := aYard(ctx), aYard(ctx), aProfile(ctx, neverFlushing)
		// All that is foreign has the name of the other yard in its own.
		aNode(ctx, there.node("n").Label(v1.LabelHostname, there.name+"-host").Label("yard", there.name).Capacity("cpu", "4", "pods", "10"))
		expectReady(ctx, p)
		everywhere := v1.PodAffinityTerm{
			TopologyKey: "yard", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bank"}}, NamespaceSelector: &metav1.LabelSelector{},
		}
		shy := v1.PodAffinityTerm{
			TopologyKey: "yard", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "noisy"}}, NamespaceSelector: &metav1.LabelSelector{},
		}
		admin.ExpectBound(ctx,
			aPod(ctx, there.pod(p, there.name+"-bank").Label("app", "bank").Requests("cpu", "2").RequirePodAntiAffinity(shy)),
			aPod(ctx, there.pod(p, there.name+"-cache").Requests("cpu", "1").HostPort("", v1.ProtocolTCP, 4711)),
		)
		theirs := func(name string) *v1.Pod {
			return aPod(ctx, here.pod(p, name).NodeSelector("yard", there.name).Requests("cpu", "2"))
		}
		waiting := []*v1.Pod{
			theirs("no-room"),
			aPod(ctx, here.pod(p, "keeps-away").NodeSelector("yard", there.name).RequirePodAntiAffinity(everywhere)),
			aPod(ctx, here.pod(p, "is-kept-away").NodeSelector("yard", there.name).Label("app", "noisy")),
			aPod(ctx, here.pod(p, "no-port").NodeSelector("yard", there.name).HostPort("", v1.ProtocolTCP, 4711)),
			aPod(ctx, here.pod(p, "gated").SchedulingGate("example.com/quota")),
			aPod(ctx, unhonoured(here.pod(p, "unsupported"))),
		}
		said := map[string]string{}
		for _, pod := range waiting {
			said[pod.Name] = expectDecision(ctx, pod).Status.BlockedBy
		}
		Expect(said).To(SatisfyAll(
			HaveKeyWithValue("no-room", ContainSubstring("NodeResourcesFit 1")),
			HaveKeyWithValue("keeps-away", ContainSubstring("InterPodAffinity 1")),
			HaveKeyWithValue("is-kept-away", ContainSubstring("InterPodAffinity 1")),
			HaveKeyWithValue("no-port", ContainSubstring("NodePorts 1")),
			HaveKey("gated"), HaveKey("unsupported"),
		))

		all := readAll(ctx, here)
		Expect(all).To(HaveKey("schedulingdecisions"))
		Expect(all).To(HaveKey("events"))
		for resource, objects := range all {
			for _, object := range objects {
				text, err := json.Marshal(withoutSelectors(object))
				Expect(err).NotTo(HaveOccurred())
				Expect(string(text)).NotTo(ContainSubstring(there.name), resource)
			}
		}
	})
})

// readAll returns every object of a yard, by resource, that somebody reads who may
// read all of it and nothing else.
func readAll(ctx context.Context, y yard) map[string][]map[string]any {
	GinkgoHelper()
	who := "reader-of-" + y.name
	reads := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.name, Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}
	apitest.Created(ctx, admin, reads)
	apitest.Created(ctx, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.name, Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reads.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who}},
	})
	cfg := cp.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: who, Groups: []string{"system:authenticated"}}
	found, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerPreferredNamespacedResources()
	Expect(err).NotTo(HaveOccurred())
	reader := dynamic.NewForConfigOrDie(cfg)
	all := map[string][]map[string]any{}
	for _, group := range found {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			list, err := reader.Resource(version.WithResource(resource.Name)).Namespace(y.name).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred(), resource.Name)
			for _, item := range list.Items {
				all[resource.Name] = append(all[resource.Name], item.Object)
			}
		}
	}
	return all
}

// withoutSelectors is an object without what its author wrote of others.
func withoutSelectors(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	delete(spec, "nodeSelector")
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	return object
}
