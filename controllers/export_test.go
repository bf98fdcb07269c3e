package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/scheduler/plugins"
)

func withExport(p *v1alpha1.SchedulingProfile) {
	p.Spec.Exports.Autoscaler = &v1alpha1.AutoscalerExport{ConfigMap: "autoscaler"}
}

// The cache of a new leader may be behind that of its predecessor, which exported what it ran.
func TestAnExportIsWrittenFromTheNewestSpecOnly(t *testing.T) {
	config := withConfigRef("Own", "shared")
	for name, c := range map[string]struct {
		cached, live fakeReader
		exported     bool
	}{
		"the cache is current":                     {fakeReader{newProfile(2, withExport)}, fakeReader{newProfile(2, withExport)}, true},
		"the cache has an older spec":              {fakeReader{newProfile(1, withExport)}, fakeReader{newProfile(2, withExport)}, false},
		"the cache has an older PluginConfig":      {fakeReader{newProfile(1, withExport, config), newConfig("shared", 1)}, fakeReader{newProfile(1, withExport, config), newConfig("shared", 2)}, false},
		"the cache has a profile that was deleted": {fakeReader{newProfile(1, withExport)}, fakeReader{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, client := newTestEnv(t), fake.NewClientset()
			d.cluster, d.live = c.cached, c.live
			d.options.Exporter = export.NewExporter(client, "berth-system", plugins.InTree())
			d.mustReconcile()
			list, err := client.CoreV1().ConfigMaps("berth-system").List(t.Context(), metav1.ListOptions{})
			if err != nil || (len(list.Items) == 1) != c.exported {
				t.Errorf("%d ConfigMaps are written, error %v; want one: %v", len(list.Items), err, c.exported)
			}
		})
	}
}

func TestTheExportOfAProfileThatTheCacheLacksIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		live fakeReader
		left int
	}{
		"the profile exists":      {fakeReader{newProfile(1, withExport)}, 1},
		"the profile was deleted": {fakeReader{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, client := newTestEnv(t, newProfile(1, withExport)), fake.NewClientset()
			d.live = d.cluster
			d.options.Exporter = export.NewExporter(client, "berth-system", plugins.InTree())
			d.mustReconcile()
			d.cluster, d.live = fakeReader{}, c.live
			d.mustReconcile()
			list, err := client.CoreV1().ConfigMaps("berth-system").List(t.Context(), metav1.ListOptions{})
			if diff := cmp.Diff(c.left, len(list.Items)); diff != "" || err != nil {
				t.Errorf("error %v, ConfigMaps (-want +got):\n%s", err, diff)
			}
		})
	}
}
