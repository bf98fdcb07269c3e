package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/test/support/controlplane"
)

var cp *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	cp, err = controlplane.Start(context.Background(), controlplane.Options{ControllerManager: true, KWOK: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the control plane:", err)
		return 1
	}
	defer cp.Stop()
	return m.Run()
}

// eventually polls done until it returns that nothing is lacking.
func eventually(t *testing.T, done func(ctx context.Context) (lacking string, err error)) {
	t.Helper()
	var lacking string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		lacking, err = done(ctx)
		return lacking == "", err
	})
	if err != nil {
		t.Fatalf("%v; lacking: %s", err, lacking)
	}
}

func TestANamespaceIsCreatedAndGetsItsServiceAccount(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := cp.Client().CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) (string, error) {
		_, err := cp.Client().CoreV1().ServiceAccounts("shop").Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "service account shop/default", nil
		}
		return "", err
	})
	out, err := cp.Kubectl(t.Context(), nil, "get", "namespaces", "--output=name")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "namespace/shop\n") {
		t.Errorf("kubectl does not show the namespace: %s", out)
	}
}

func TestAPodThatIsBoundToANodeRuns(t *testing.T) {
	if err := cp.Nodes(t.Context(), 4, controlplane.NodeOptions{Prefix: "runs"}); err != nil {
		t.Fatal(err)
	}
	node, err := cp.Client().CoreV1().Nodes().Get(t.Context(), "runs-3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cpu := node.Status.Allocatable.Cpu().String(); cpu != "4" || node.Labels[corev1.LabelTopologyZone] != "zone-0" {
		t.Errorf("node runs-3 has %s CPU in %s, want 4 in zone-0", cpu, node.Labels[corev1.LabelTopologyZone])
	}

	pods := cp.Client().CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "web", Image: "none"}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "runs-3"},
	}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) (string, error) {
		pod, err := pods.Get(ctx, "web", metav1.GetOptions{})
		if err != nil || pod.Status.Phase == corev1.PodRunning {
			return "", err
		}
		return "a running pod, it is " + string(pod.Status.Phase), nil
	})
}

func TestAServiceAccountHasOnlyItsPermissions(t *testing.T) {
	ctx, rbac := t.Context(), cp.Client().RbacV1()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	if _, err := cp.Client().CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}
	if _, err := rbac.Roles("default").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grant := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "reader"},
	}
	if _, err := rbac.RoleBindings("default").Create(ctx, grant, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := cp.ServiceAccountConfig(ctx, "default", "reader")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// The authorizer observes a binding through a watch.
	eventually(t, func(ctx context.Context) (string, error) {
		_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return "the permission to list config maps", nil
		}
		return "", err
	})
	if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing pods without permission: %v, want Forbidden", err)
	}
}

func TestAComponentThatDoesNotStartShowsItsLog(t *testing.T) {
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir:           filepath.Join(t.TempDir(), "broken"),
		APIServerArgs: []string{"--no-such-flag"},
	})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v, want the API server's error about --no-such-flag", err)
	}
}

func TestMissingBinariesAreNamedWithTheFoldersSearched(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("BERTH_TOOLS", empty)
	_, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "no etcd in "+empty) {
		t.Errorf("got %v, want an error that names etcd and %s", err, empty)
	}
}

// A stopped process is in state T (proc(5), the field after the command in brackets).
func TestAllProcessesAreStoppedAndContinued(t *testing.T) {
	stopped := func(context.Context) (string, error) {
		for _, pid := range cp.PIDs() {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				return "", err
			}
			if _, rest, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(rest, "T ") {
				return fmt.Sprintf("process %d runs", pid), nil
			}
		}
		return "", nil
	}
	if lacking, err := stopped(t.Context()); err != nil {
		t.Skip(err) // not Linux
	} else if lacking == "" {
		t.Fatal("all are stopped before SIGSTOP")
	}
	defer cp.Signal(syscall.SIGCONT) // also when the test fails
	if err := cp.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, stopped)
	if err := cp.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) (string, error) {
		_, err := cp.Client().CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return "", err
	})
}
