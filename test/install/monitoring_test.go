package install

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"service/berth-metrics", "configmap/berth-dashboard",
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
