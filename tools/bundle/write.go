package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const generatedComment = "# Made by `make bundle`; config/ is what to change.\n"

// labels mark an image or a folder as a bundle: they are the labels of the image and the
// annotations of the folder. A version before 1.0.0 is in the candidate channel.
var labels = [][2]string{
	{"operators.operatorframework.io.bundle.mediatype.v1", "registry+v1"},
	{"operators.operatorframework.io.bundle.manifests.v1", "manifests/"},
	{"operators.operatorframework.io.bundle.metadata.v1", "metadata/"},
	{"operators.operatorframework.io.bundle.package.v1", "berth"},
	{"operators.operatorframework.io.bundle.channels.v1", "candidate-v0"},
	{"operators.operatorframework.io.bundle.channel.default.v1", "candidate-v0"},
	{"operators.operatorframework.io.test.mediatype.v1", "scorecard+v1"},
	{"operators.operatorframework.io.test.config.v1", "tests/scorecard/"},
}

// bundleKinds are the kinds besides a ClusterServiceVersion that a bundle may contain and
// Berth uses; operator-registry has the full list.
var bundleKinds = []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "PodDisruptionBudget", "ConfigMap", "NetworkPolicy"}

// write writes bundle/ and bundle.Dockerfile into the folder out.
func (s *source) write(out string, csv *v1alpha1.ClusterServiceVersion) error {
	files, err := s.files(csv)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(out, "bundle")); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files returns the files of the bundle by their path below the root.
func (s *source) files(csv *v1alpha1.ClusterServiceVersion) (map[string][]byte, error) {
	manifest := func(name string) string { return filepath.Join("bundle", "manifests", name) }
	text, err := withoutDefaults(csv)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		manifest("berth.clusterserviceversion.yaml"):         text,
		filepath.Join("bundle", "metadata/annotations.yaml"): annotations(),
		"bundle.Dockerfile": dockerfile(),
	}
	for _, c := range s.crds {
		if files[manifest(filepath.Base(c.file))], err = os.ReadFile(c.file); err != nil {
			return nil, err
		}
	}
	objects, err := s.plainObjects()
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		files[manifest(fileName(o))] = append([]byte(generatedComment), text...)
	}
	files["bundle/tests/scorecard/config.yaml"], err = os.ReadFile(s.path("config", "scorecard", "config.yaml"))
	return files, err
}

// plainObjects returns the objects that the bundle contains unchanged except for the
// namespace, which is that of the installation. Objects that the lifecycle manager creates
// from the ClusterServiceVersion, or that users create, are left out.
func (s *source) plainObjects() ([]*unstructured.Unstructured, error) {
	granted := map[string]bool{} // roles that the ClusterServiceVersion grants to the service account
	var plain []*unstructured.Unstructured
	for _, o := range s.objects {
		account, err := s.serviceAccountOf(o)
		if err != nil {
			return nil, err
		}
		granted[o.GetName()] = granted[o.GetName()] || o.GetKind() == "ClusterRole" && account != ""
	}
	for _, o := range s.objects {
		role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		switch kind := o.GetKind(); {
		case kind == "Namespace", kind == "ServiceAccount", kind == "Deployment":
		case kind == "ClusterRole" && granted[o.GetName()], kind == "ClusterRoleBinding" && granted[role]:
		case slices.Contains(bundleKinds, kind):
			o = o.DeepCopy()
			o.SetNamespace("")
			plain = append(plain, o)
		default:
			return nil, fmt.Errorf("config/default: %s %s: a bundle cannot contain this kind, only %s",
				kind, o.GetName(), strings.Join(bundleKinds, ", "))
		}
	}
	return plain, nil
}

// withoutDefaults removes fields that the Go types write although they are not set.
func withoutDefaults(csv *v1alpha1.ClusterServiceVersion) ([]byte, error) {
	text, err := json.Marshal(csv)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	delete(object, "status")
	for _, unset := range []string{"apiservicedefinitions", "cleanup"} {
		delete(object["spec"].(map[string]any), unset)
	}
	text, err = yaml.Marshal(object)
	return append([]byte(generatedComment), text...), err
}

func annotations() []byte {
	var b strings.Builder
	b.WriteString(generatedComment + "annotations:\n")
	for _, l := range labels {
		fmt.Fprintf(&b, "  %s: %s\n", l[0], l[1])
	}
	return []byte(b.String())
}

func dockerfile() []byte {
	var b strings.Builder
	b.WriteString(generatedComment + "FROM scratch\n\n")
	for _, l := range labels {
		fmt.Fprintf(&b, "LABEL %s=%s\n", l[0], l[1])
	}
	b.WriteString("\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\nCOPY bundle/tests/scorecard /tests/scorecard/\n")
	return []byte(b.String())
}
