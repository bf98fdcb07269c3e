// Package install shows that the shipped manifests install on a real API
// server, and what rights they give.
package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

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

// run applies config/default, once for all tests.
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

// The namespace enforces the restricted pod security level, so that pods that
// are there were found to keep it.
func TestTheManagersPodsAreAdmitted(t *testing.T) {
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
		t.Fatalf("%v; the Deployment says %s", err, conditions)
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

// forUsers are roles that are bound to nobody.
var forUsers = regexp.MustCompile(`-(viewer|editor|admin|approver|reader|debugger)-role$`)

// Roles are generated and bindings are written by hand: this is where they
// meet.
func TestTheManagerHasEveryGeneratedRoleAndNoRoleIsMissing(t *testing.T) {
	granted, there := map[string]bool{}, map[string]bool{} // kind/name → true
	rbac := cp.Client().RbacV1()
	roles, err := rbac.ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range roles.Items {
		if strings.HasPrefix(r.Name, "berth-") && !forUsers.MatchString(r.Name) {
			there["ClusterRole/"+r.Name] = true
		}
	}
	local, err := rbac.Roles(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range local.Items {
		there["Role/"+r.Name] = true
	}

	bindings, err := rbac.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		note(granted, b.RoleRef, b.Subjects)
	}
	localBindings, err := rbac.RoleBindings(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range localBindings.Items {
		note(granted, b.RoleRef, b.Subjects)
	}
	for role := range there {
		if !granted[role] {
			t.Errorf("%s is not bound to the manager: see config/rbac/role_binding.yaml", role)
		}
	}
	for role := range granted {
		if !there[role] {
			t.Errorf("the manager is bound to %s, which is not there: does a marker with that roleName generate it?", role)
		}
	}
}

func note(granted map[string]bool, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: manager}
	if slices.Contains(subjects, account) {
		granted[role.Kind+"/"+role.Name] = true
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	const ours = "berth.dev"
	for user, has := range map[string]struct{ role, group, resource string }{
		"viewer":             {"berth-profile-viewer-role", ours, "schedulingprofiles"},
		"editor":             {"berth-profile-editor-role", ours, "schedulingprofiles"},
		"someone-with-view":  {"view", ours, "schedulingdecisions"},
		"someone-with-admin": {"admin", "", "pods"},
	} {
		if _, err := cp.Kubectl(t.Context(), nil, "create", "clusterrolebinding", user, "--clusterrole="+has.role, "--user="+user); err != nil {
			t.Fatal(err)
		}
		// The authorizer learns of it through a watch: an answer of no counts
		// only after a first yes.
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
		"the manager watches pods":                               {account, "watch", "", "pods", "", true},
		"the manager binds pods":                                 {account, "create", "", "pods", "binding", true},
		"the manager writes the status of profiles":              {account, "patch", ours, "schedulingprofiles", "status", true},
		"the manager changes nothing of a pod but its status":    {account, "patch", "", "pods", "", false},
		"the manager does not read secrets of every namespace":   {account, "get", "", "secrets", "", false},
		"the manager does not grant itself more":                 {account, "escalate", rbacv1.GroupName, "clusterroles", "", false},
		"a viewer reads profiles":                                {"viewer", "list", ours, "schedulingprofiles", "", true},
		"a viewer changes none":                                  {"viewer", "patch", ours, "schedulingprofiles", "", false},
		"an editor changes profiles":                             {"editor", "patch", ours, "schedulingprofiles", "", true},
		"an editor does not write what Berth says of them":       {"editor", "patch", ours, "schedulingprofiles", "status", false},
		"view does not include profiles, which name others pods": {"someone-with-view", "list", ours, "schedulingprofiles", "", false},
		"view includes why a pod of the namespace waits":         {"someone-with-view", "list", ours, "schedulingdecisions", "", true},
		"admin may not say it in Berth's name":                   {"someone-with-admin", "create", ours, "schedulingdecisions", "", false},
		"the manager writes why a pod waits":                     {account, "create", ours, "schedulingdecisions", "", true},
		"admin does not include profiles either":                 {"someone-with-admin", "list", ours, "schedulingprofiles", "", false},
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

// may asks the API server's authorizer about every namespace at once.
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
