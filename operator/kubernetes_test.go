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
	const tooOld, unseen = "older than any that Berth is for", "does not see which pods name one"
	for sentence, c := range map[string]struct {
		version, serves string
		fails           error
		tells           []string
		tellsNot        []string
	}{
		"a new one":                         {version: "v1.37.1", tells: []string{"v1.37.1"}, tellsNot: []string{tooOld, unseen}},
		"the oldest that Berth is for":      {version: "v1.35.0-gke.12", tells: []string{"v1.35.0-gke.12"}, tellsNot: []string{tooOld, unseen}},
		"an older one":                      {version: "v1.34.9+k3s1", tells: []string{tooOld, "v1.34.9+k3s1", "1.35.0"}, tellsNot: []string{unseen}},
		"one with Workloads of 1.35":        {version: "v1.35.4", serves: workloadsGroupVersion, tells: []string{unseen, "spec.workloadRef"}, tellsNot: []string{tooOld}},
		"one with Workloads of 1.36":        {version: "v1.36.3", serves: "scheduling.k8s.io/v1alpha2", tellsNot: []string{tooOld, unseen}},
		"one that does not say what it is":  {version: "", tellsNot: []string{tooOld, unseen}},
		"one that does not answer just now": {fails: errors.New("try again"), tells: []string{"not to be known", "try again"}, tellsNot: []string{tooOld, unseen}},
	} {
		t.Run(sentence, func(t *testing.T) {
			client := fake.NewClientset()
			server := client.Discovery().(*fakediscovery.FakeDiscovery)
			server.FakedServerVersion = &apiversion.Info{GitVersion: c.version}
			if c.serves != "" {
				server.Resources = []*metav1.APIResourceList{{GroupVersion: c.serves, APIResources: []metav1.APIResource{{Name: "workloads"}}}}
			}
			if c.fails != nil {
				client.PrependReactor("get", "version", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.fails })
			}
			var told strings.Builder
			logKubernetesVersion(server, funcr.New(func(_, args string) { told.WriteString(args + "\n") }, funcr.Options{}))
			for _, want := range c.tells {
				if !strings.Contains(told.String(), want) {
					t.Errorf("nothing is told of %q:\n%s", want, told.String())
				}
			}
			for _, not := range c.tellsNot {
				if strings.Contains(told.String(), not) {
					t.Errorf("it is told that it is %q:\n%s", not, told.String())
				}
			}
		})
	}
}
