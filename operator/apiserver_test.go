package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestTheVersionOfTheAPIServerIsLogged(t *testing.T) {
	const tooOld, unseen = "older than Berth supports", "does not see which pods name one"
	for name, c := range map[string]struct {
		version, serves string
		fails           error
		logs            []string
		logsNot         []string
	}{
		"a new one":                  {version: "v1.37.1", logs: []string{"v1.37.1"}, logsNot: []string{tooOld, unseen}},
		"the oldest supported one":   {version: "v1.35.0-gke.12", logs: []string{"v1.35.0-gke.12"}, logsNot: []string{tooOld, unseen}},
		"an older one":               {version: "v1.34.9+k3s1", logs: []string{tooOld, "v1.34.9+k3s1", "1.35.0"}, logsNot: []string{unseen}},
		"one with Workloads of 1.35": {version: "v1.35.4", serves: workloadsGroupVersion, logs: []string{unseen, "spec.workloadRef"}, logsNot: []string{tooOld}},
		"one with Workloads of 1.36": {version: "v1.36.3", serves: "scheduling.k8s.io/v1alpha2", logsNot: []string{tooOld, unseen}},
		"one with an empty version":  {version: "", logsNot: []string{tooOld, unseen}},
		"one that does not answer":   {fails: errors.New("try again"), logs: []string{"version of the API server is unknown", "try again"}, logsNot: []string{tooOld, unseen}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			server := client.Discovery().(*fakediscovery.FakeDiscovery)
			server.FakedServerVersion = &apiversion.Info{GitVersion: c.version}
			if c.serves != "" {
				server.Resources = []*metav1.APIResourceList{{GroupVersion: c.serves, APIResources: []metav1.APIResource{{Name: "workloads"}}}}
			}
			if c.fails != nil {
				client.PrependReactor("get", "version", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.fails })
			}
			var logged strings.Builder
			logKubernetesVersion(server, funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{}))
			for _, want := range c.logs {
				if !strings.Contains(logged.String(), want) {
					t.Errorf("%q is not logged:\n%s", want, logged.String())
				}
			}
			for _, not := range c.logsNot {
				if strings.Contains(logged.String(), not) {
					t.Errorf("%q is logged:\n%s", not, logged.String())
				}
			}
		})
	}
}
