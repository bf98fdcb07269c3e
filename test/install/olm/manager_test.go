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

// runManager runs the manager as the installed account, and waits until it is ready.
func runManager(ctx context.Context, path string) *controlplane.Process {
	GinkgoHelper()
	m, err := operator.Start(ctx, cp, path)
	Expect(err).NotTo(HaveOccurred())
	Expect(m.Until(ctx, m.Ready)).To(Succeed())
	return m.Process
}

// permission is a permission that an account must have or must not have. The resource may
// have the name of an object after a slash.
type permission struct {
	verb, group, resource, subresource, namespace string

	want bool
}

// managerPermissions are those of config/default that OLM is most likely to get wrong:
// permissions of one namespace must not become cluster-wide, and vice versa.
var managerPermissions = map[string]permission{
	"binds pods of every namespace":              {"create", "", "pods", "binding", "default", true},
	"evicts":                                     {"delete", "", "pods", "", "default", true},
	"patches claims":                             {"patch", "", "persistentvolumeclaims", "", "default", true},
	"reviews tokens of scrapers":                 {"create", "authentication.k8s.io", "tokenreviews", "", "", true},
	"updates its Lease":                          {"update", "coordination.k8s.io", "leases/berth-manager", "", namespace, true},
	"updates no other Lease in its namespace":    {"update", "coordination.k8s.io", "leases", "", namespace, false},
	"updates no Lease in other namespaces":       {"update", "coordination.k8s.io", "leases", "", "kube-system", false},
	"creates ControllerRevisions":                {"create", "apps", "controllerrevisions", "", namespace, true},
	"creates none in other namespaces":           {"create", "apps", "controllerrevisions", "", "default", false},
	"reads no Secrets":                           {"get", "", "secrets", "", namespace, false},
	"creates no ConfigMap in other namespaces":   {"create", "", "configmaps", "", "kube-system", false},
	"has the permissions of out-of-tree plugins": {"list", "example.com", "ships", "", "", true},
	"does not update roles":                      {"update", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
	"does not update its Deployment":             {"update", "apps", "deployments", "", namespace, false},
}

// installerPermissions are what OLM v1's account needs in addition to creating the objects
// of the bundle.
var installerPermissions = map[string]permission{
	"creates the Deployment":                               {"create", "apps", "deployments", "", namespace, true},
	"creates the manager's account":                        {"create", "", "serviceaccounts", "", namespace, true},
	"creates roles with permissions that it does not have": {"escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", true},
	"binds them": {"bind", "rbac.authorization.k8s.io", "clusterroles", "", "", true},
	"creates Deployments in no other namespace": {"create", "apps", "deployments", "", "default", false},
	"reads no Secrets":                          {"get", "", "secrets", "", namespace, false},
}

func wrongManagerPermissions(ctx context.Context) []string {
	return wrongPermissions(ctx, account, managerPermissions)
}

func wrongInstallerPermissions(ctx context.Context) []string {
	return wrongPermissions(ctx, "berth-installer", installerPermissions)
}

// wrongPermissions returns the permissions of an account that are not as they must be.
func wrongPermissions(ctx context.Context, account string, rights map[string]permission) (wrong []string) {
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

// getObject reads an object of any kind.
func getObject(ctx context.Context, gvk schema.GroupVersionKind, in, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, admin.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, o)
}

// podNodes returns the nodes of the workload's pods by UID, "" for a pending pod.
func podNodes(ctx context.Context) (map[types.UID]string, error) {
	var pods corev1.PodList
	err := admin.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "web"})
	on := map[types.UID]string{}
	for _, pod := range pods.Items {
		on[pod.UID] = pod.Spec.NodeName
	}
	return on, err
}

// boundCount returns the number of bound pods of the workload.
func boundCount(ctx context.Context) (n int, err error) {
	pods, err := podNodes(ctx)
	for _, node := range pods {
		if node != "" {
			n++
		}
	}
	return n, err
}

// freeCPUs returns the number of pods of 1 CPU that the nodes take: 4 each, less one for
// each node with a manager.
func freeCPUs(ctx context.Context) (int, error) {
	var managers corev1.PodList
	err := admin.List(ctx, &managers, client.InNamespace(namespace))
	on := map[string]bool{}
	for _, pod := range managers.Items {
		on[pod.Spec.NodeName] = true
	}
	return 4*nodes - len(on), err
}
