package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// source is the input of the bundle.
type source struct {
	root           string
	base           v1alpha1.ClusterServiceVersion // fields that no other file defines
	objects        []*unstructured.Unstructured   // dist/install.yaml, without the CRDs
	crds           []crd
	samples        []*unstructured.Unstructured // examples, in the order of their files
	minKubeVersion string                       // the oldest API server that is tested, 1.2.3
	icon           []byte
	description    string // the long description
}

// crd is a CustomResourceDefinition and its file, which is copied into the bundle.
type crd struct {
	file string
	def  apiextensionsv1.CustomResourceDefinition
}

func (s *source) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

func read(root string) (*source, error) {
	s := &source{root: root}
	return s, errors.Join(s.readBase(), s.readInstall(), s.readCRDs(), s.readSamples(), s.readMinKubeVersion())
}

func (s *source) readBase() error {
	from := func(name string) string { return s.path("config", "manifests", name) }
	base, err := os.ReadFile(from("berth.clusterserviceversion.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(base, &s.base); err != nil {
		return fmt.Errorf("config/manifests: %w", err)
	}
	text, err := os.ReadFile(from("description.md"))
	if err != nil {
		return err
	}
	s.description = string(text)
	s.icon, err = os.ReadFile(from("icon.svg"))
	return err
}

// readInstall reads the objects of config/default, as `make generate` writes them.
func (s *source) readInstall() error {
	all, err := readObjects(s.path("dist", "install.yaml"))
	for _, o := range all {
		if o.GetKind() != "CustomResourceDefinition" {
			s.objects = append(s.objects, o)
		}
	}
	return err
}

func (s *source) readCRDs() error {
	files, err := filepath.Glob(s.path("config", "crd", "bases", "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("config/crd/bases: no file there")
	}
	for _, file := range files {
		c := crd{file: file}
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr, yaml.Unmarshal(text, &c.def))
		s.crds = append(s.crds, c)
	}
	return err
}

// readSamples reads the samples of the kinds that readCRDs has read.
func (s *source) readSamples() error {
	files, err := filepath.Glob(s.path("config", "samples", "*.yaml"))
	for _, file := range append(files, s.path("config", "manifests", "schedulingdecision.yaml")) {
		objects, readErr := readObjects(file)
		err = errors.Join(err, readErr)
		// OLM refuses examples of kinds that are not the operator's, such as a Pod.
		s.samples = append(s.samples, slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
			return !slices.ContainsFunc(s.crds, func(c crd) bool { return c.def.Spec.Group == o.GroupVersionKind().Group })
		})...)
	}
	return err
}

// readMinKubeVersion returns the oldest Kubernetes version that `make older` tests: the
// oldest API server that tools/older pins.
func (s *source) readMinKubeVersion() error {
	entries, err := os.ReadDir(s.path("tools", "older"))
	if err != nil {
		return err
	}
	var minors []int
	for _, e := range entries {
		var minor int
		if _, err := fmt.Sscanf(e.Name(), "1.%d", &minor); err == nil {
			minors = append(minors, minor)
		}
	}
	if len(minors) == 0 {
		return errors.New("tools/older: no version there")
	}
	s.minKubeVersion = fmt.Sprintf("1.%d.0", slices.Min(minors))
	return nil
}

// readObjects reads all objects of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// convertTo converts an object to its Go type.
func convertTo[T any](o *unstructured.Unstructured) (T, error) {
	var into T
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &into)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return into, err
}

// fileName returns the name of the file of an object in the bundle.
func fileName(o *unstructured.Unstructured) string {
	return o.GetName() + "_" + strings.ToLower(o.GetKind()) + ".yaml"
}
