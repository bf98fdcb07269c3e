package olm

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// runManager runs it as the account that was installed, until it is ready.
func runManager(ctx context.Context, path string) *controlplane.Process {
	GinkgoHelper()
	m, err := operator.Start(ctx, cp, path)
	Expect(err).NotTo(HaveOccurred())
	Expect(m.Until(ctx, m.Ready)).To(Succeed())
	return m.Process
}

// right is one thing that the manager's account may or may not do. A slash and a name
// behind the resource are those of one object.
type right struct {
	verb, group, resource, subresource, namespace string

	want bool
}

// rights are those of config/default, where OLM is most likely to get them wrong:
// what is of one namespace must not become the cluster's, and the other way round.
var rights = map[string]right{
	"binds pods of every namespace":               {"create", "", "pods", "binding", "default", true},
	"evicts":                                      {"delete", "", "pods", "", "default", true},
	"writes to claims":                            {"patch", "", "persistentvolumeclaims", "", "default", true},
	"asks who scrapes it":                         {"create", "authentication.k8s.io", "tokenreviews", "", "", true},
	"holds its lease":                             {"update", "coordination.k8s.io", "leases/berth-manager", "", namespace, true},
	"holds no other lease there":                  {"update", "coordination.k8s.io", "leases", "", namespace, false},
	"holds no lease elsewhere":                    {"update", "coordination.k8s.io", "leases", "", "kube-system", false},
	"keeps its history":                           {"create", "apps", "controllerrevisions", "", namespace, true},
	"keeps none elsewhere":                        {"create", "apps", "controllerrevisions", "", "default", false},
	"reads no Secrets":                            {"get", "", "secrets", "", namespace, false},
	"writes no ConfigMap elsewhere":               {"create", "", "configmaps", "", "kube-system", false},
	"does what a plugin of one's own may":         {"list", "example.com", "ships", "", "", true},
	"does not change roles":                       {"update", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
	"does not change what the bundle installs of": {"update", "apps", "deployments", "", namespace, false},
}

// installerRights are what OLM v1's account needs beside creating what is in the bundle
// as it is.
var installerRights = map[string]right{
	"makes the Deployment":                   {"create", "apps", "deployments", "", namespace, true},
	"makes the manager's account":            {"create", "", "serviceaccounts", "", namespace, true},
	"makes roles that have more than it has": {"escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", true},
	"gives them":                             {"bind", "rbac.authorization.k8s.io", "clusterroles", "", "", true},
	"makes Deployments nowhere else":         {"create", "apps", "deployments", "", "default", false},
	"reads no Secrets":                       {"get", "", "secrets", "", namespace, false},
}

func managersWrongRights(ctx context.Context) []string { return wrongRights(ctx, account, rights) }

func installersWrongRights(ctx context.Context) []string {
	return wrongRights(ctx, "berth-installer", installerRights)
}

// wrongRights are those of an account that are not as they should be.
func wrongRights(ctx context.Context, account string, rights map[string]right) (wrong []string) {
	for name, r := range rights {
		resource, object, _ := strings.Cut(r.resource, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + account,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: resource, Subresource: r.subresource, Namespace: r.namespace, Name: object,
			},
		}}
		err := admin.Create(ctx, review)
		if err != nil || review.Status.Allowed != r.want {
			wrong = append(wrong, fmt.Sprintf("%s: allowed: %t, want %t (%v)", name, review.Status.Allowed, r.want, err))
		}
	}
	return wrong
}

// object reads one object of any kind.
func object(ctx context.Context, gvk schema.GroupVersionKind, in, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, admin.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, o)
}

// placed says of each pod of the workload where it is, "" while it waits, by UID.
func placed(ctx context.Context) (map[types.UID]string, error) {
	var pods corev1.PodList
	err := admin.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "web"})
	on := map[types.UID]string{}
	for _, pod := range pods.Items {
		on[pod.UID] = pod.Spec.NodeName
	}
	return on, err
}

// bound is how many of them are on a node.
func bound(ctx context.Context) (n int, err error) {
	pods, err := placed(ctx)
	for _, node := range pods {
		if node != "" {
			n++
		}
	}
	return n, err
}

// room is how many pods of 1 CPU the nodes have, of 4 CPU each, less one for each
// node with a manager on it.
func room(ctx context.Context) (int, error) {
	var managers corev1.PodList
	err := admin.List(ctx, &managers, client.InNamespace(namespace))
	on := map[string]bool{}
	for _, pod := range managers.Items {
		on[pod.Spec.NodeName] = true
	}
	return 4*nodes - len(on), err
}
