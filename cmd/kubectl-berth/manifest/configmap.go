package manifest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// ConfigMap is the kind in which a kube-scheduler that runs as a pod has its configuration.
const ConfigMap = "ConfigMap"

// KeySuffix is the end of the source of a document in a ConfigMap.
func KeySuffix(key string) string { return fmt.Sprintf(", key %q", key) }

// Configurations returns the configurations of kube-scheduler in a ConfigMap.
func Configurations(d Document) ([]Document, error) {
	texts, err := ConfigMapData(d.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Source, err)
	}
	var found []Document
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		source := fmt.Sprintf("%s: ConfigMap %s%s", d.Source, d.Object.GetName(), KeySuffix(key))
		inside, err := ParseText(source, texts[key])
		if err != nil {
			if strings.Contains(texts[key], upstreamconfig.Kind) {
				return nil, err // it should be a configuration
			}
			continue
		}
		for _, document := range inside {
			if isConfiguration(document.Object) {
				found = append(found, document)
			}
		}
	}
	return found, nil
}

// isConfiguration reports whether a document is a configuration of kube-scheduler. Other
// components have policies too, such as the audit policy of the API server.
func isConfiguration(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case upstreamconfig.Kind:
		return true
	case upstreamconfig.PolicyKind:
		return object.GetAPIVersion() == "v1"
	}
	return false
}

// ConfigMapData returns the texts of a ConfigMap by key.
func ConfigMapData(object *unstructured.Unstructured) (map[string]string, error) {
	texts, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		return nil, errors.New("data: must be an object of strings")
	}
	binary, _, err := unstructured.NestedStringMap(object.Object, "binaryData")
	if err != nil {
		return nil, errors.New("binaryData: must be an object of strings")
	}
	all := map[string]string{}
	maps.Copy(all, texts)
	for key, text := range binary {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("binaryData[%s]: must be base64: %w", key, err)
		}
		all[key] = string(decoded)
	}
	return all, nil
}
