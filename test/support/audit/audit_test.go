package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berthdev/berth/test/support/audit"
)

// Lines of an API server; the last one is incomplete.
const logged = `{"kind":"Event","level":"Metadata","verb":"list","requestURI":"/api/v1/pods?limit=500","objectRef":{"resource":"pods","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-20T10:00:00.000000Z","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"r\" of ClusterRole \"r\" to ServiceAccount \"berth-manager/berth-system\""}}
{"kind":"Event","level":"Metadata","verb":"create","requestURI":"/api/v1/namespaces/a/pods/p/binding","objectRef":{"resource":"pods","namespace":"a","name":"p","apiVersion":"v1","subresource":"binding"},"requestReceivedTimestamp":"2026-11-20T10:00:01.000000Z","annotations":{"authorization.k8s.io/decision":"allow"}}
{"kind":"Event","level":"Metadata","verb":"get","requestURI":"/apis/coordination.k8s.io/v1/namespaces/a/leases/l","objectRef":{"resource":"leases","namespace":"a","name":"l","apiGroup":"coordination.k8s.io","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-20T10:00:04.000000Z","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by RoleBinding \"r/a\" of Role \"r\" to ServiceAccount \"berth-manager/berth-system\""}}
{"kind":"Event","level":"Metadata","verb":"delete","requestURI":"/api/v1/nodes/n","objectRef":{"resource":"nodes","name":"n","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-20T10:00:05.000000Z","annotations":{"authorization.k8s.io/decision":"forbid"}}
{"kind":"Event","level":"Metadata","verb":"get","requestURI":"/metrics","requestReceivedTimestamp":"2026-11-20T10:00:06.000000Z","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"m\" of ClusterRole \"m\" to Group \"system:authenticated\""}}
{"kind":"Event","level":"Metadata","verb":"watch","requestURI":"/api/v1/services?sendInitialEvents=true","objectRef":{"resource":"services","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-20T10:00:20.000000Z","annotations":{"authorization.k8s.io/decision":"allow"}}
{"kind":"Event","lev`

func entries(t *testing.T) []audit.Entry {
	t.Helper()
	dir := t.TempDir()
	log, flags, err := audit.New(dir, audit.User("system:anonymous"))
	if err != nil {
		t.Fatal(err)
	}
	if none, err := log.Entries(); err != nil || none != nil {
		t.Fatalf("before the first request: %v, %v; want nothing", none, err)
	}
	if want := "--audit-log-path=" + filepath.Join(dir, "audit.log"); !slices.Contains(flags, want) {
		t.Fatalf("flags are %q, want one to be %q", flags, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "audit.log"), []byte(logged), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := log.Entries()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestIncompleteLinesAreLeftOut(t *testing.T) {
	all := entries(t)
	var got, forbidden []string
	for i := range all {
		got = append(got, all[i].String())
		if all[i].Forbidden() {
			forbidden = append(forbidden, all[i].String())
		}
	}
	if diff := cmp.Diff([]string{
		"list /api/v1/pods?limit=500", "create /api/v1/namespaces/a/pods/p/binding",
		"get /apis/coordination.k8s.io/v1/namespaces/a/leases/l", "delete /api/v1/nodes/n", "get /metrics",
		"watch /api/v1/services?sendInitialEvents=true",
	}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"delete /api/v1/nodes/n"}, forbidden); diff != "" {
		t.Errorf("forbidden (-want +got):\n%s", diff)
	}
	if got := audit.Most(all, 3*time.Second); got != 3 {
		t.Errorf("%d within three seconds, want 3: those of seconds 4, 5 and 6", got)
	}
}

func TestALogFromNowOnBeginsWithTheNextRequest(t *testing.T) {
	dir := t.TempDir()
	log, _, err := audit.New(dir, audit.User("system:anonymous"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(logged, "\n")
	for sentence, c := range map[string]struct{ before, after, want string }{
		"the log does not exist":     {"", lines[0], "list /api/v1/pods?limit=500"},
		"it has requests":            {lines[0] + lines[1], lines[2], "get /apis/coordination.k8s.io/v1/namespaces/a/leases/l"},
		"a request is being written": {lines[0] + lines[1][:40], lines[1][40:] + lines[3], "delete /api/v1/nodes/n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			file := filepath.Join(dir, "audit.log")
			_ = os.Remove(file) // that of the case before
			if c.before != "" {
				if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			later, err := log.FromNow()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.before+c.after), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := later.Entries()
			if err != nil || len(all) != 1 || all[0].String() != c.want {
				t.Errorf("got %v, %v; want %q", all, err, c.want)
			}
		})
	}
}

func TestUnusedPermissionsAreFound(t *testing.T) {
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "berth-system", Name: "berth-manager"}
	clusterRole := func(name string, rules ...rbacv1.PolicyRule) []client.Object {
		return []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{subject},
			},
		}
	}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	lease := rule("coordination.k8s.io", "leases", "get")
	named := func(name string) rbacv1.PolicyRule {
		r := lease
		r.ResourceNames = []string{name}
		return r
	}
	tests := map[string]struct {
		rules []rbacv1.PolicyRule
		want  []string
	}{
		"a permission for a request is used":        {[]rbacv1.PolicyRule{rule("", "pods", "list"), lease}, nil},
		"another verb is not used":                  {[]rbacv1.PolicyRule{rule("", "pods", "list", "watch")}, []string{"r: watch pods"}},
		"a watch also uses list":                    {[]rbacv1.PolicyRule{rule("", "services", "list", "watch")}, nil},
		"a subresource does not use its resource":   {[]rbacv1.PolicyRule{rule("", "pods", "create")}, []string{"r: create pods"}},
		"a subresource is used":                     {[]rbacv1.PolicyRule{rule("", "pods/binding", "create")}, nil},
		"the resource of another group is not used": {[]rbacv1.PolicyRule{rule("extensions", "leases", "get")}, []string{"r: get leases.extensions"}},
		"an object of that name is used":            {[]rbacv1.PolicyRule{named("l")}, nil},
		"an object of another name is not used":     {[]rbacv1.PolicyRule{named("m")}, []string{"r: get leases.coordination.k8s.io m"}},
		"a non-resource URL is used":                {[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, nil},
		"another URL is not used":                   {[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug"}, Verbs: []string{"get"}}}, []string{"r: get /debug"}},
		"a forbidden request uses no permission":    {[]rbacv1.PolicyRule{rule("", "nodes", "delete")}, []string{"r: delete nodes"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(clusterRole("r", test.rules...)...).Build()
			granted, err := audit.Granted(t.Context(), c, subject.Namespace, subject.Name)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, right := range audit.Unused(granted, entries(t)) {
				got = append(got, right.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
		})
	}
	others, err := audit.Granted(t.Context(), fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(clusterRole("r", lease)...).Build(), "elsewhere", subject.Name)
	if err != nil || others != nil {
		t.Errorf("another account has %v, %v; want nothing", others, err)
	}
}

func TestMissingPermissionsOfManifestsAreFound(t *testing.T) {
	const manifests = `apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]s
metadata: {name: r, namespace: %[2]s}
rules:
- {apiGroups: [""], resources: [pods], verbs: [%[3]s]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [%[3]s]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata: {name: r, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: r}
subjects: [{kind: ServiceAccount, namespace: berth-system, name: berth-manager}]
`
	const pods, lease = "list pods /", "get leases.coordination.k8s.io a/l"
	tests := map[string]struct {
		kind, namespace, verbs string
		missing, unused        []string
	}{
		"all requests":                    {"ClusterRole", `""`, "list, get", nil, []string{"r: list leases.coordination.k8s.io", "r: get pods"}},
		"one verb":                        {"ClusterRole", `""`, "list", []string{lease}, []string{"r: list leases.coordination.k8s.io"}},
		"a Role of the Lease's namespace": {"Role", "a", "get", []string{pods}, []string{"a/r: get pods"}},
		"a Role of another namespace":     {"Role", "b", "get", []string{lease, pods}, []string{"b/r: get pods", "b/r: get leases.coordination.k8s.io"}},
		"watch does not permit list":      {"ClusterRole", `""`, "watch", []string{lease, pods}, []string{"r: watch pods", "r: watch leases.coordination.k8s.io"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := audit.Manifests(fmt.Sprintf(manifests, test.kind, test.namespace, test.verbs))
			if err != nil {
				t.Fatal(err)
			}
			rights, err := audit.Granted(t.Context(), c, "berth-system", "berth-manager")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.missing, audit.Missing(rights, entries(t))); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			var unused []string
			for _, right := range audit.Unused(rights, entries(t)) {
				unused = append(unused, right.String())
			}
			sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(test.unused, unused, sorted); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := audit.Manifests("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nruels: []\n"); err == nil {
		t.Error("a Role with an unknown field is accepted")
	}
}
