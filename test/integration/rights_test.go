package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

const managerAccount = "system:serviceaccount:" + operator.Namespace + ":" + operator.Account

// auditLog is the API server's audit log of the manager's requests.
var auditLog audit.Log

// The manager of the suite runs in this process. This spec makes the requests of the
// program that is shipped.
var _ = Describe("The manager as a program", func() {
	// The build takes minutes where nothing was compiled before.
	It("is ready as a follower, and serves metrics to users who may scrape it", SpecTimeout(10*time.Minute), func(ctx SpecContext) {
		binary, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		manager, err := operator.Start(ctx, cp, binary, "--default-profile=")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(manager.Process) })
		Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
		token, err := operator.AccountWith(ctx, cp, "prometheus", operator.ScrapeRole)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (int, error) {
			status, _, err := manager.Scrape(ctx, token)
			return status, err
		}).Should(Equal(http.StatusOK))
	})
})

// installation is one way to install Berth.
type installation struct {
	// folder is a folder of config. static is the file of it that has the pod where the
	// kustomization has none.
	folder, static string
	// missing are the permissions that it does not grant since its manager does not have
	// the flag that needs them.
	missing []string
}

// The manager of the specs has all flags and all permissions that components grant.
// dist/install.yaml is config/default, as `make verify` checks; the tests of tools/bundle
// check the permissions of the bundle.
var installations = []installation{
	{folder: "default", missing: []string{otherLeaseRight, secretsRight}},
	{folder: "production", missing: []string{otherLeaseRight, secretsRight}},
	{folder: "static-pod", static: "berth.yaml", missing: []string{secretsRight}},
}

const (
	otherLeaseRight = "get leases.coordination.k8s.io kube-system/kube-scheduler"
	secretsRight    = "get secrets berth-system/"
)

// permissionFlags has the flag that needs a permission.
var permissionFlags = map[string]string{secretsRight: "--enable-extenders", otherLeaseRight: "--other-scheduler-lease="}

// permissionsOf returns the permissions of the manager's account. Its manager must have a
// flag exactly if the permission that the flag needs is granted.
func permissionsOf(ctx context.Context, w installation) []audit.Permission {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	folder := filepath.Join(root, "config", w.folder)
	text, err := kubectl(ctx, "kustomize", folder)
	Expect(err).NotTo(HaveOccurred())
	manifests, err := audit.Manifests(text)
	Expect(err).NotTo(HaveOccurred())
	if w.static != "" {
		pod, err := os.ReadFile(filepath.Join(folder, w.static))
		Expect(err).NotTo(HaveOccurred())
		text = string(pod)
	}
	for right, flag := range permissionFlags {
		Expect(strings.Contains(text, "- "+flag)).To(Equal(!slices.Contains(w.missing, right)), "%s: %s and the permission to %s", w.folder, flag, right)
	}
	rights, err := audit.Granted(ctx, manifests, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	return rights
}

func unused(rights []audit.Permission, entries []audit.Entry) (names []string) {
	for _, right := range audit.Unused(rights, entries) {
		names = append(names, right.String())
	}
	return names
}

// missing returns the permissions that the requests would need; that for any Secret counts
// once.
func missing(rights []audit.Permission, entries []audit.Entry) (needs []string) {
	for _, need := range audit.Missing(rights, entries) {
		if strings.HasPrefix(need, secretsRight) {
			need = secretsRight
		}
		needs = append(needs, need)
	}
	return slices.Compact(needs)
}

// After all specs the manager has made no request that its permissions forbid, and has used
// all of them. The same is so for each installation, except for the flags.
var _ = AfterSuite(func(ctx SpecContext) {
	if cp == nil {
		return // the control plane did not start
	}
	entries, err := auditLog.Entries()
	Expect(err).NotTo(HaveOccurred())
	Expect(entries).NotTo(ContainElement(beForbidden()), "requests that config/rbac forbids")
	if suite, _ := GinkgoConfiguration(); len(suite.FocusStrings)+len(suite.SkipStrings)+len(suite.FocusFiles)+len(suite.SkipFiles) > 0 {
		return // other specs use more permissions
	}
	granted, err := audit.Granted(ctx, admin, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	Expect(granted).NotTo(BeEmpty())
	Expect(audit.Missing(granted, entries)).To(BeEmpty(), "the suite's own installation")
	if serverMinor <= schedulingGroupSince {
		granted = slices.DeleteFunc(granted, forPodGroups)
	}
	Expect(unused(granted, entries)).To(BeEmpty(), "permissions of config/rbac that the manager does not use")
	for _, w := range installations {
		rights := permissionsOf(ctx, w)
		if serverMinor <= schedulingGroupSince {
			rights = slices.DeleteFunc(rights, forPodGroups)
		}
		Expect(unused(rights, entries)).To(BeEmpty(), "%s: permissions that the manager does not use", w.folder)
		Expect(missing(rights, entries)).To(Equal(w.missing), "%s: permissions that are missing", w.folder)
	}
}, managerTimeout)

// forPodGroups reports whether a permission is for PodGroups of scheduling.k8s.io, which an
// API server before 1.37 does not serve in the version that the manager reads.
func forPodGroups(p audit.Permission) bool { return p.Group == schedulingv1beta1.GroupName }

func beForbidden() types.GomegaMatcher {
	return WithTransform(func(e audit.Entry) bool { return e.Forbidden() }, BeTrue())
}

// Why a pod is pending may depend on pods of other namespaces: those that use the
// resources, those with anti-affinity, and possible victims.
var _ = Describe("A user who may read all of one namespace", func() {
	It("can read why its pods are pending, and no name of a foreign object", minute, func(ctx SpecContext) {
		otherEnv, here, p := newTestEnv(ctx), newTestEnv(ctx), createProfile(ctx, neverFlush)
		// All foreign objects have the name of the other namespace in their names.
		createNode(ctx, otherEnv.node("n").Label(v1.LabelHostname, otherEnv.namespace+"-host").Label("env", otherEnv.namespace).Capacity("cpu", "4", "pods", "10"))
		expectReady(ctx, p)
		bankAnywhere := v1.PodAffinityTerm{
			TopologyKey: "env", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bank"}}, NamespaceSelector: &metav1.LabelSelector{},
		}
		noisyAnywhere := v1.PodAffinityTerm{
			TopologyKey: "env", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "noisy"}}, NamespaceSelector: &metav1.LabelSelector{},
		}
		admin.ExpectBound(ctx,
			createPod(ctx, otherEnv.pod(p, otherEnv.namespace+"-bank").Label("app", "bank").Requests("cpu", "2").RequirePodAntiAffinity(noisyAnywhere)),
			createPod(ctx, otherEnv.pod(p, otherEnv.namespace+"-cache").Requests("cpu", "1").HostPort("", v1.ProtocolTCP, 4711)),
		)
		pinned := func(name string) *v1.Pod {
			return createPod(ctx, here.pod(p, name).NodeSelector("env", otherEnv.namespace).Requests("cpu", "2"))
		}
		waiting := []*v1.Pod{
			pinned("no-resources"),
			createPod(ctx, here.pod(p, "anti-affinity").NodeSelector("env", otherEnv.namespace).RequirePodAntiAffinity(bankAnywhere)),
			createPod(ctx, here.pod(p, "existing-anti-affinity").NodeSelector("env", otherEnv.namespace).Label("app", "noisy")),
			createPod(ctx, here.pod(p, "no-port").NodeSelector("env", otherEnv.namespace).HostPort("", v1.ProtocolTCP, 4711)),
			createPod(ctx, here.pod(p, "gated").SchedulingGate("example.com/quota")),
		}
		blockedBy := map[string]string{}
		for _, pod := range waiting {
			blockedBy[pod.Name] = expectDecision(ctx, pod).Status.BlockedBy
			if len(pod.Spec.SchedulingGates) == 0 {
				Eventually(podEvents(ctx, pod)).ShouldNot(BeEmpty(), pod.Name)
			}
		}
		Expect(blockedBy).To(SatisfyAll(
			HaveKeyWithValue("no-resources", ContainSubstring("NodeResourcesFit 1")),
			HaveKeyWithValue("anti-affinity", ContainSubstring("InterPodAffinity 1")),
			HaveKeyWithValue("existing-anti-affinity", ContainSubstring("InterPodAffinity 1")),
			HaveKeyWithValue("no-port", ContainSubstring("NodePorts 1")),
			HaveKey("gated"),
		))

		all := readAll(ctx, here)
		Expect(all).To(HaveKey("schedulingdecisions"))
		Expect(all).To(HaveKey("events"))
		for resource, objects := range all {
			for _, object := range objects {
				text, err := json.Marshal(withoutSelectors(object))
				Expect(err).NotTo(HaveOccurred())
				Expect(string(text)).NotTo(ContainSubstring(otherEnv.namespace), resource)
			}
		}
	})
})

// readAll returns all objects of the namespace, by resource, as a user reads them who may
// read this namespace only.
func readAll(ctx context.Context, env testEnv) map[string][]map[string]any {
	GinkgoHelper()
	user := "reader-of-" + env.namespace
	reads := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}
	apitest.Created(ctx, admin, reads)
	apitest.Created(ctx, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reads.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	expectAllowed(ctx, user, env.namespace, reads.Rules...)
	cfg := cp.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
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
			list, err := reader.Resource(version.WithResource(resource.Name)).Namespace(env.namespace).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred(), resource.Name)
			for _, item := range list.Items {
				all[resource.Name] = append(all[resource.Name], item.Object)
			}
		}
	}
	return all
}

// withoutSelectors removes what the author of an object wrote about others.
func withoutSelectors(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	delete(spec, "nodeSelector")
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	return object
}
