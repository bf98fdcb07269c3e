package devices

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
)

func TestDiscover(t *testing.T) {
	all := []string{"resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"}
	for name, c := range map[string]struct {
		version string
		served  []string
		want    Served
		kinds   int
	}{
		"all kinds, as in Kubernetes 1.37":        {"v1.37.1", all, Served{Devices: true, Rules: true, ExtendedResources: true}, 4},
		"without rules, as in Kubernetes 1.36":    {"v1.36.0", all[:3], Served{Devices: true, ExtendedResources: true}, 3},
		"no class backs a resource in 1.35":       {"v1.35.9+vendor", all[:3], Served{Devices: true}, 3},
		"a version that cannot be read":           {"main", all[:3], Served{Devices: true}, 3},
		"claims without slices are of no use":     {"v1.37.1", []string{"resourceclaims", "devicetaintrules"}, Served{Rules: true, ExtendedResources: true}, 0},
		"a cluster whose API has no such objects": {"v1.37.1", nil, Served{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: c.version}
			if c.served != nil {
				list := &metav1.APIResourceList{GroupVersion: resourceapi.SchemeGroupVersion.String()}
				for _, plural := range c.served {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural})
				}
				client.Resources = []*metav1.APIResourceList{list}
			}
			got, err := Discover(client.Discovery())
			if err != nil || got != c.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, c.want)
			}
			if kinds, missing := len(got.Kinds()), len(got.Missing()); kinds != c.kinds || missing != 4-c.kinds {
				t.Errorf("%d kinds and %d missing, want %d of 4", kinds, missing, c.kinds)
			}
		})
	}
}
