package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// committedBundle is the bundle in the tree, parsed by the lifecycle manager's own code.
func committedBundle(t *testing.T) *manifests.Bundle {
	t.Helper()
	bundle, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func readSources(t *testing.T) *source {
	t.Helper()
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bundleFiles returns the files of a bundle by their path below dir.
func bundleFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"bundle.Dockerfile", "bundle/*/*", "bundle/*/*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil { // otherwise it is a folder
				name, _ := filepath.Rel(dir, path)
				files[name] = string(text)
			}
		}
	}
	return files
}

func TestTheBundleIsUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := run(options{root: root, out: dir}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundleFiles(t, dir), bundleFiles(t, root)); diff != "" {
		t.Errorf("run `make bundle` and commit the changes (-generated, +in the tree):\n%s", diff)
	}
}

func TestAVersionIsWrittenEverywhere(t *testing.T) {
	dir := t.TempDir()
	if err := run(options{root: root, out: dir, version: "0.0.9", image: "example.com/berth@sha256:0"}); err != nil {
		t.Fatal(err)
	}
	bundle, err := manifests.GetBundleFromDir(filepath.Join(dir, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	csv := bundle.CSV
	got := []string{csv.Name, csv.Spec.Version.String(), csv.Annotations["containerImage"],
		csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image}
	want := []string{"berth.v0.0.9", "0.0.9", "example.com/berth@sha256:0", "example.com/berth@sha256:0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	related := []v1alpha1.RelatedImage{{Name: "manager", Image: "example.com/berth@sha256:0"}}
	if diff := cmp.Diff(related, csv.Spec.RelatedImages); diff != "" {
		t.Errorf("relatedImages of an image by digest (-want,+got):\n%s", diff)
	}
	if images := committedBundle(t).CSV.Spec.RelatedImages; images != nil {
		t.Errorf("relatedImages of an image without digest: %v, want none: a mirror could not copy it", images)
	}
	if err := run(options{root: root, out: dir, version: "one"}); err == nil || !strings.Contains(err.Error(), "1.2.3") {
		t.Errorf("version one: got %v, want an error with an example of a version", err)
	}
}

// The lifecycle manager grants these permissions to the service account, and creates the
// other objects as they are. Together they must be those of config/default.
func TestThePermissionsAreThoseOfConfig(t *testing.T) {
	bundle, config := committedBundle(t), readSources(t)
	bound, users := map[string]bool{}, map[string]any{}
	var want [][]rbacv1.PolicyRule
	for _, o := range config.objects {
		if name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name"); o.GetKind() == "ClusterRoleBinding" {
			bound[name] = true
		}
	}
	for _, o := range config.objects {
		_, aggregated := o.Object["aggregationRule"]
		switch {
		case !slices.Contains([]string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}, o.GetKind()):
		case o.GetKind() == "ClusterRole" && bound[o.GetName()] && !aggregated:
			role, err := convertTo[rbacv1.ClusterRole](o)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, role.Rules)
		case o.GetKind() != "ClusterRoleBinding" || o.GetName() == "berth-plugin-role":
			o.SetNamespace("")
			users[fileName(o)] = o.Object
		}
	}
	var got [][]rbacv1.PolicyRule
	strategy := bundle.CSV.Spec.InstallStrategy.StrategySpec
	for _, p := range strategy.ClusterPermissions {
		if p.ServiceAccountName != strategy.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName {
			t.Errorf("permissions for service account %s, which no Deployment uses", p.ServiceAccountName)
		}
		got = append(got, p.Rules)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clusterPermissions (-config,+bundle):\n%s", diff)
	}
	if len(strategy.Permissions) > 0 {
		t.Error("permissions: the lifecycle manager would grant them in every namespace: see csv.go")
	}
	plain := map[string]any{}
	for _, o := range bundle.Objects {
		if o.GroupVersionKind().Group == rbacv1.GroupName {
			plain[fileName(o)] = o.Object
		}
	}
	if diff := cmp.Diff(users, plain); diff != "" {
		t.Errorf("other roles and bindings (-config,+bundle):\n%s", diff)
	}
}

func TestTheExamplesAreTheSamplesOfBerthsKinds(t *testing.T) {
	var got []map[string]any
	if err := json.Unmarshal([]byte(committedBundle(t).CSV.Annotations["alm-examples"]), &got); err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(root, "config", "manifests", "schedulingdecision.yaml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			if version, _ := object["apiVersion"].(string); strings.HasPrefix(version, "berth.dev/") {
				want = append(want, object) // OLM refuses other kinds, such as a Pod
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-samples,+alm-examples):\n%s", diff)
	}
}

func TestEachTopLevelFieldIsDescribed(t *testing.T) {
	bundle := committedBundle(t)
	for _, crd := range bundle.V1CRDs {
		at := slices.IndexFunc(bundle.CSV.Spec.CustomResourceDefinitions.Owned,
			func(d ownedCRD) bool { return d.Name == crd.Name })
		if at < 0 {
			t.Errorf("%s is not in owned", crd.Name)
			continue
		}
		descriptions := map[string]string{}
		owned := bundle.CSV.Spec.CustomResourceDefinitions.Owned[at]
		for _, d := range owned.SpecDescriptors {
			descriptions["spec."+d.Path] = d.DisplayName + d.Description
		}
		for _, d := range owned.StatusDescriptors {
			descriptions["status."+d.Path] = d.DisplayName + d.Description
		}
		fields := 0
		for _, part := range []string{"spec", "status"} {
			for field := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part].Properties {
				fields++
				if len(descriptions[part+"."+field]) < 20 {
					t.Errorf("%s: %s.%s has no description, or too short a one: %q", crd.Name, part, field, descriptions[part+"."+field])
				}
			}
		}
		if fields == 0 || fields != len(descriptions) {
			t.Errorf("%s has %d fields, and %d are described", crd.Name, fields, len(descriptions))
		}
	}
}

// The samples contain the package, its channel, and the object that installs it.
func TestTheInstallSamplesNameThePackage(t *testing.T) {
	bundle := committedBundle(t)
	for _, file := range []string{"subscription.yaml", "clusterextension.yaml"} {
		objects, err := readObjects(filepath.Join(root, "config", "olm", file))
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, o := range objects {
			name, _, _ := unstructured.NestedString(o.Object, "spec", "name")
			channel, _, _ := unstructured.NestedString(o.Object, "spec", "channel")
			if o.GetKind() == "ClusterExtension" {
				name, _, _ = unstructured.NestedString(o.Object, "spec", "source", "catalog", "packageName")
				channels, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "source", "catalog", "channels")
				channel = strings.Join(channels, ",")
			} else if o.GetKind() != "Subscription" {
				continue
			}
			named++
			if diff := cmp.Diff([]string{bundle.Package, bundle.DefaultChannel}, []string{name, channel}); diff != "" {
				t.Errorf("%s: %s (-bundle,+sample):\n%s", file, o.GetKind(), diff)
			}
		}
		if named != 1 {
			t.Errorf("%s: %d objects install something, want one", file, named)
		}
	}
}
