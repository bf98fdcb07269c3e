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
	annotation, read := begin(configs)
	if want := "InterPodAffinity=near,NodeResourcesFit=binpack"; annotation != want {
		t.Errorf("annotation %q, want %q", annotation, want)
	}
	if diff := cmp.Diff(configs, read); diff != "" {
		t.Errorf("PluginConfigs (-want +got):\n%s", diff)
	}
	if annotation, _ := begin(nil); annotation != "" {
		t.Errorf("annotation %q of the same spec with inline arguments, want none", annotation)
	}
}
