package version

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/kubectltest"
)

func TestVersion(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-manager", Labels: map[string]string{nameLabel: nameValue}}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "example.com/berth:v0.1.0"}}
	for name, c := range map[string]struct {
		objects []client.Object
		args    []string
	}{
		"all versions":         {objects: []client.Object{deployment}},
		"Berth unknown":        {},
		"all versions as YAML": {objects: []client.Object{deployment}, args: []string{"-o", "yaml"}},
		"the plugin only":      {args: []string{"--client"}},
	} {
		t.Run(name, func(t *testing.T) {
			kubectltest.Golden(t, name, kubectltest.New(t, c.objects...).Run(New, c.args...), false)
		})
	}
}
