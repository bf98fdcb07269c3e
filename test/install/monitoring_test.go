package install

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

func TestWhatWatchesBerthGoesBesideIt(t *testing.T) {
	if err := cp.InstallCRDs(t.Context(), filepath.Join("monitoring", "kinds.yaml")); err != nil {
		t.Fatal(err)
	}
	said, err := cp.Kubectl(t.Context(), nil, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--kustomize", "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"servicemonitor.monitoring.coreos.com/berth-metrics", "prometheusrule.monitoring.coreos.com/berth-alerts",
		"service/berth-metrics", "configmap/berth-dashboard", "secret/berth-metrics-scraper",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%s was not applied:\n%s", want, said)
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
			t.Errorf("the Service wants pods with %s=%s, the manager's have %v", key, value, deployment.Spec.Template.Labels)
		}
	}
	ports := map[string]bool{}
	for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	if want := service.Spec.Ports[0].TargetPort.StrVal; !ports[want] {
		t.Errorf("the Service leads to port %q, the manager has %v", want, ports)
	}
}

func TestTheServiceMonitorNamesATokenThatMayScrapeAndNothingElse(t *testing.T) {
	said, err := cp.Kubectl(t.Context(), nil, "apply", "--server-side", "--force-conflicts", "--filename="+filepath.Join("..", "..", "config", "prometheus", "account.yaml"))
	if err != nil {
		t.Fatal(said, err)
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
		t.Fatal("no token came:", err)
	}
	config := cp.Config()
	config.BearerToken = string(token)
	scraper, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// The authorizer learns of the binding through a watch.
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
		}}
		answer, err := scraper.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	if err != nil {
		t.Fatal("the token may not get /metrics:", err)
	}
	if pods, err := scraper.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("the token lists pods, and sees %d", len(pods.Items))
	}
}
