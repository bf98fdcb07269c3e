package history

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestARevisionRecordsThePluginConfigsOfItsArguments(t *testing.T) {
	a := newTestHistory(t)
	begin := func(configs map[string]string) (annotation string, read map[string]string) {
		t.Helper()
		l, err := a.Read(t.Context(), "batch")
		if err != nil {
			t.Fatal(err)
		}
		a.Begin(t.Context(), l, RevisionSpec{
			Profile: "batch", UID: "1", Hash: "h", Generation: 1, Data: []byte(`{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulingProfile","metadata":{"name":"batch"}}`), Configs: configs,
		})
		if l, err = a.Read(t.Context(), "batch"); err != nil {
			t.Fatal(err)
		}
		return l.entries["batch-h"].Annotations[v1alpha1.AnnotationPluginConfigs], l.Revisions[0].Configs
	}
	configs := map[string]string{"NodeResourcesFit": "binpack", "InterPodAffinity": "near"}
	noted, read := begin(configs)
	if want := "InterPodAffinity=near,NodeResourcesFit=binpack"; noted != want {
		t.Errorf("noted %q, want %q", noted, want)
	}
	if diff := cmp.Diff(configs, read); diff != "" {
		t.Errorf("PluginConfigs (-want +got):\n%s", diff)
	}
	if noted, _ := begin(nil); noted != "" {
		t.Errorf("the same spec with its arguments inline notes %q", noted)
	}
}
