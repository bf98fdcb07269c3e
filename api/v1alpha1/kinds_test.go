package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestKindsHaveTheDocumentedNamesAndColumns(t *testing.T) {
	for kind, want := range map[string]struct {
		scope         string
		short         []string
		columns, wide []string
		selectable    []string
	}{
		"SchedulingProfile": {
			scope:      "Cluster",
			short:      []string{"sprof"},
			columns:    []string{"State", "Ready", "Gen", "Runs", "Pending", "Bound", "Last", "Age"},
			wide:       []string{"Hash", "Reason", "Message"},
			selectable: []string{".spec.state"},
		},
		"PluginConfig": {
			scope:   "Cluster",
			short:   []string{"plugcfg"},
			columns: []string{"Plugin", "Accepted", "Programmed", "Used-By", "Age"},
		},
		"SchedulingDecision": {
			scope:      "Namespaced",
			short:      []string{"sdec", "why"},
			columns:    []string{"Profile", "Result", "Fits", "Blocked-By", "Age"},
			wide:       []string{"Message"},
			selectable: []string{".status.result", ".status.profile.name"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			c, ok := readCRDs(t)[kind]
			if !ok {
				t.Fatal("no CRD")
			}
			var columns, wide, selectable []string
			for _, column := range c.Spec.Versions[0].AdditionalPrinterColumns {
				if column.Priority == 0 {
					columns = append(columns, column.Name)
				} else {
					wide = append(wide, column.Name)
				}
			}
			for _, f := range c.Spec.Versions[0].SelectableFields {
				selectable = append(selectable, f.JSONPath)
			}
			got := []any{c.Spec.Scope, c.Spec.Names.ShortNames, c.Spec.Names.Categories, columns, wide, selectable}
			if diff := cmp.Diff([]any{want.scope, want.short, []string{"berth"}, want.columns, want.wide, want.selectable}, got); diff != "" {
				t.Errorf("scope, short names, categories, columns, wide columns, selectable fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryKindIsInTheScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind := range readCRDs(t) {
		for _, k := range []string{kind, kind + "List"} {
			if !scheme.Recognizes(GroupVersion.WithKind(k)) {
				t.Errorf("%s is not in the scheme", k)
			}
		}
	}
}

func TestSetDefaultsEqualsTheDefaultsOfTheCRD(t *testing.T) {
	spec := readCRDs(t)["SchedulingProfile"].root().Properties["spec"]
	want, err := json.Marshal(defaulted(spec, spec.Default))
	if err != nil {
		t.Fatal(err)
	}
	var fromCRD SchedulingProfileSpec
	if err := json.Unmarshal(want, &fromCRD); err != nil {
		t.Fatal(err)
	}
	var fromGo SchedulingProfileSpec
	fromGo.SetDefaults()
	if diff := cmp.Diff(fromCRD, fromGo); diff != "" {
		t.Errorf("an empty spec (-CRD +Go):\n%s", diff)
	}
	if fromGo.Queue.MaxBackoffSeconds == nil || fromGo.State != StateActive {
		t.Errorf("no defaults are set: %+v", fromGo)
	}
}

// defaulted returns value with the defaults of s applied at every depth, as the API
// server applies them.
func defaulted(s node, value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for name, field := range s.Properties {
		if _, ok := object[name]; !ok && field.Default != nil {
			object[name] = field.Default
		}
		if v, ok := object[name]; ok {
			object[name] = defaulted(field, v)
		}
	}
	return object
}

func TestSetDefaultsKeepsSetFields(t *testing.T) {
	zero := int32(0)
	spec := SchedulingProfileSpec{State: StatePaused, Queue: QueuePolicy{FlushAfterSeconds: &zero}}
	spec.SetDefaults()
	if spec.State != StatePaused || *spec.Queue.FlushAfterSeconds != 0 {
		t.Errorf("overwritten: %s, %d", spec.State, *spec.Queue.FlushAfterSeconds)
	}
}
