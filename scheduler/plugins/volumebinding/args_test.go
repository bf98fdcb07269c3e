package volumebinding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

func TestDefault(t *testing.T) {
	for name, c := range map[string]struct{ args, want configv1.VolumeBindingArgs }{
		"the defaults are ten minutes and a shape that prefers free storage": {want: configv1.VolumeBindingArgs{
			BindTimeoutSeconds: ptr.To[int64](600),
			Shape:              []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}},
		}},
		"values that are set are kept": {
			args: configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](0), Shape: []configv1.UtilizationShapePoint{{Utilization: 5, Score: 5}}},
			want: configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](0), Shape: []configv1.UtilizationShapePoint{{Utilization: 5, Score: 5}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			Default(&c.args)
			if diff := cmp.Diff(c.want, c.args); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		args configv1.VolumeBindingArgs
		want []string
	}{
		"the defaults are valid":  {},
		"a timeout of 0 is valid": {args: configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](0)}},
		"a negative timeout": {
			args: configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](-1)}, want: []string{"args.bindTimeoutSeconds"},
		},
		"a timeout that overflows": {
			args: configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](1 << 40)}, want: []string{"args.bindTimeoutSeconds"},
		},
		"an invalid shape": {
			args: configv1.VolumeBindingArgs{Shape: []configv1.UtilizationShapePoint{{Utilization: 50, Score: 11}, {Utilization: 50, Score: 1}}},
			want: []string{"args.shape[1].utilization", "args.shape[0].score"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			Default(&c.args)
			var got []string
			for _, err := range Validate(&c.args, field.NewPath("args")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want,+got):\n%s", diff)
			}
		})
	}
}
