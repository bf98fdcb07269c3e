// Package install tests that the shipped manifests can be installed on a real API server,
// and which permissions they grant.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/test/support/controlplane"
)

const (
	namespace = "berth-system"
	manager   = "berth-manager"
)

var cp *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run applies config/default once for all tests.
func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the control plane:", err)
		return 1
	}
	defer cp.Stop()
	if out, err := cp.Kubectl(ctx, nil, "apply", "-k", filepath.Join("..", "..", "config", "default")); err != nil {
		fmt.Fprintln(os.Stderr, out, err)
		return 1
	}
	return m.Run()
}

// The namespace enforces the restricted pod security standard, so pods that exist comply
// with it.
func TestManagerPodsAreAdmitted(t *testing.T) {
	var conditions string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		d, err := cp.Client().AppsV1().Deployments(namespace).Get(ctx, manager, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions = fmt.Sprint(d.Status.Conditions)
		return d.Status.Replicas == *d.Spec.Replicas, nil
	})
	if err != nil {
		t.Fatalf("%v; the Deployment has %s", err, conditions)
	}
	pods, err := cp.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.SchedulerName != "default-scheduler" {
			t.Errorf("pod %s waits for %s: a scheduler must not wait for itself", pod.Name, pod.Spec.SchedulerName)
		}
	}
}

// kube-controller-manager writes the rules of the aggregated role: an upgrade that applies rules is
// refused by a conflict.
func TestTheManifestsAreAppliedAgainWherePluginsHaveRights(t *testing.T) {
	roles := cp.Client().RbacV1().ClusterRoles()
	ofPlugin := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "own-plugin", Labels: map[string]string{"rbac.berth.dev/aggregate-to-plugins": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"quotas"}, Verbs: []string{"get"}}},
	}
	if _, err := roles.Create(t.Context(), ofPlugin, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roles.Delete(context.WithoutCancel(t.Context()), ofPlugin.Name, metav1.DeleteOptions{}) })
	aggregated := func(ctx context.Context) (bool, error) {
		role, err := roles.Get(ctx, "berth-plugin-role", metav1.GetOptions{})
		return err == nil && cmp.Equal(role.Rules, ofPlugin.Rules), err
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, aggregated); err != nil {
		t.Fatalf("waiting until berth-plugin-role has the rules of a plugin: %v", err)
	}
	for range 2 {
		if out, err := cp.Kubectl(t.Context(), nil, "apply", "--server-side", "-k", filepath.Join("..", "..", "config", "default")); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if kept, err := aggregated(t.Context()); !kept || err != nil {
			t.Errorf("berth-plugin-role has lost the rules of a plugin: %v", err)
		}
	}
}

// userRoles are roles for users, which are not bound.
var userRoles = regexp.MustCompile(`-(viewer|editor|admin|approver|reader|debugger)-role$`)

// Roles are generated and bindings are written by hand: this test compares them.
func TestManagerHasAllGeneratedRoles(t *testing.T) {
	granted, existing := map[string]bool{}, map[string]bool{} // kind/name → true
	rbac := cp.Client().RbacV1()
	roles, err := rbac.ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range roles.Items {
		if strings.HasPrefix(r.Name, "berth-") && !userRoles.MatchString(r.Name) {
			existing["ClusterRole/"+r.Name] = true
		}
	}
	local, err := rbac.Roles(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range local.Items {
		existing["Role/"+r.Name] = true
	}

	bindings, err := rbac.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		addGrant(granted, b.RoleRef, b.Subjects)
	}
	localBindings, err := rbac.RoleBindings(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range localBindings.Items {
		addGrant(granted, b.RoleRef, b.Subjects)
	}
	for role := range existing {
		if !granted[role] {
			t.Errorf("%s is not bound to the manager: see config/rbac/role_binding.yaml", role)
		}
	}
	for role := range granted {
		if !existing[role] {
			t.Errorf("the manager is bound to %s, which does not exist: does a marker with that roleName generate it?", role)
		}
	}
}

func addGrant(granted map[string]bool, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: manager}
	if slices.Contains(subjects, account) {
		granted[role.Kind+"/"+role.Name] = true
	}
}

func TestPermissions(t *testing.T) {
	const group = "berth.dev"
	for user, has := range map[string]struct{ role, group, resource string }{
		"viewer":             {"berth-profile-viewer-role", group, "schedulingprofiles"},
		"editor":             {"berth-profile-editor-role", group, "schedulingprofiles"},
		"someone-with-view":  {"view", group, "schedulingdecisions"},
		"someone-with-admin": {"admin", "", "pods"},
	} {
		if _, err := cp.Kubectl(t.Context(), nil, "create", "clusterrolebinding", user, "--clusterrole="+has.role, "--user="+user); err != nil {
			t.Fatal(err)
		}
		// The authorizer learns of a binding through a watch: a denial counts only after it
		// has allowed something.
		right := &authorizationv1.ResourceAttributes{Verb: "list", Group: has.group, Resource: has.resource}
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return may(t, user, right), nil
		})
		if err != nil {
			t.Fatalf("%s never got %s: %v", user, has.role, err)
		}
	}
	account := "system:serviceaccount:" + namespace + ":" + manager
	cases := map[string]struct {
		who, verb, group, resource, subresource string

		want bool
	}{
		"the manager watches pods":                                            {account, "watch", "", "pods", "", true},
		"the manager binds pods":                                              {account, "create", "", "pods", "binding", true},
		"the manager writes the status of profiles":                           {account, "patch", group, "schedulingprofiles", "status", true},
		"the manager changes nothing of a pod but its status":                 {account, "patch", "", "pods", "", false},
		"the manager does not read secrets of every namespace":                {account, "get", "", "secrets", "", false},
		"the manager does not grant itself more":                              {account, "escalate", rbacv1.GroupName, "clusterroles", "", false},
		"a viewer reads profiles":                                             {"viewer", "list", group, "schedulingprofiles", "", true},
		"a viewer changes none":                                               {"viewer", "patch", group, "schedulingprofiles", "", false},
		"an editor changes profiles":                                          {"editor", "patch", group, "schedulingprofiles", "", true},
		"an editor does not write the status":                                 {"editor", "patch", group, "schedulingprofiles", "status", false},
		"view does not include profiles, which name pods of other namespaces": {"someone-with-view", "list", group, "schedulingprofiles", "", false},
		"view includes the SchedulingDecisions of the namespace":              {"someone-with-view", "list", group, "schedulingdecisions", "", true},
		"admin may not write SchedulingDecisions":                             {"someone-with-admin", "create", group, "schedulingdecisions", "", false},
		"the manager writes SchedulingDecisions":                              {account, "create", group, "schedulingdecisions", "", true},
		"admin does not include profiles either":                              {"someone-with-admin", "list", group, "schedulingprofiles", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := may(t, tc.who, &authorizationv1.ResourceAttributes{
				Verb: tc.verb, Group: tc.group, Resource: tc.resource, Subresource: tc.subresource,
			}); got != tc.want {
				t.Errorf("allowed: %t, want %t", got, tc.want)
			}
		})
	}
}

// may asks the API server's authorizer, for all namespaces at once.
func may(t *testing.T, who string, what *authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: who, ResourceAttributes: what},
	}
	answer, err := cp.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Allowed
}

func TestMonitoringManifestsApply(t *testing.T) {
	if err := cp.InstallCRDs(t.Context(), filepath.Join("monitoring", "kinds.yaml")); err != nil {
		t.Fatal(err)
	}
	output, err := cp.Kubectl(t.Context(), nil, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--kustomize", "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"servicemonitor.monitoring.coreos.com/berth-metrics", "prometheusrule.monitoring.coreos.com/berth-alerts",
		"service/berth-metrics", "configmap/berth-dashboard", "secret/berth-metrics-scraper",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("%s was not applied:\n%s", want, output)
		}
	}
	service, err := cp.Client().CoreV1().Services(namespace).Get(t.Context(), "berth-metrics", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := cp.Client().AppsV1().Deployments(namespace).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range service.Spec.Selector {
		if deployment.Spec.Template.Labels[key] != value {
			t.Errorf("the Service selects pods with %s=%s, the manager's have %v", key, value, deployment.Spec.Template.Labels)
		}
	}
	ports := map[string]bool{}
	for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	if want := service.Spec.Ports[0].TargetPort.StrVal; !ports[want] {
		t.Errorf("the target port of the Service is %q, the manager has %v", want, ports)
	}
}

func TestServiceMonitorTokenMayOnlyScrape(t *testing.T) {
	output, err := cp.Kubectl(t.Context(), nil, "apply", "--server-side", "--force-conflicts", "--filename="+filepath.Join("..", "..", "config", "prometheus", "account.yaml"))
	if err != nil {
		t.Fatal(output, err)
	}
	monitor, err := cp.Kubectl(t.Context(), nil, "create", "--dry-run=client", "--validate=false", "--output=jsonpath={.spec.endpoints[*].authorization.credentials}",
		"--filename="+filepath.Join("..", "..", "config", "prometheus", "monitor.yaml"))
	if err != nil {
		t.Fatal(monitor, err)
	}
	if want := `{"key":"token","name":"berth-metrics-scraper"}`; strings.TrimSpace(monitor) != want {
		t.Errorf("the ServiceMonitor's credentials are %s, want %s", monitor, want)
	}
	var token []byte
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		secret, err := cp.Client().CoreV1().Secrets(namespace).Get(ctx, "berth-metrics-scraper", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		token = secret.Data["token"]
		return len(token) > 0, nil
	})
	if err != nil {
		t.Fatal("the Secret has no token:", err)
	}
	config := cp.Config()
	config.BearerToken = string(token)
	scraper, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var last error
	// The authorizer learns of the binding through a watch.
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
		}}
		answer, err := scraper.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		last = err // the API server learns of the token through a watch, too
		return err == nil && answer.Status.Allowed, nil
	})
	if err != nil {
		t.Fatal("the token may not get /metrics:", errors.Join(err, last))
	}
	if pods, err := scraper.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("the token can list %d pods", len(pods.Items))
	}
}
