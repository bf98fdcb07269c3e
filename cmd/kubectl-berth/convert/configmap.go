package convert

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// configMap is the kind in which a kube-scheduler that runs in a pod has its file.
const configMap = "ConfigMap"

// source is the one document among those of the files that holds a configuration. Others
// beside it, such as the Deployment that mounts a ConfigMap, are passed over.
func (o *options) source() (manifest.Document, error) {
	documents, err := manifest.Any("-f", o.files, o.In)
	if err != nil {
		return manifest.Document{}, err
	}
	if len(documents) == 1 && documents[0].Object.GetKind() != configMap {
		if o.key != "" {
			return manifest.Document{}, fmt.Errorf("--key: goes with a ConfigMap, %s holds a %s", documents[0].Source, documents[0].Object.GetKind())
		}
		return documents[0], nil
	}
	var found, all []manifest.Document
	for _, d := range documents {
		switch kind := d.Object.GetKind(); {
		case kind == configMap:
			inside, err := configurations(d)
			if err != nil {
				return manifest.Document{}, err
			}
			all = append(all, inside...)
		case kind == upstreamconfig.Kind || kind == upstreamconfig.PolicyKind && d.Object.GetAPIVersion() == "v1":
			all = append(all, d)
		}
	}
	for _, d := range all {
		if o.key == "" || strings.HasSuffix(d.Source, keyOf(o.key)) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return manifest.Document{}, nothingIn(documents, all, o.key)
	}
	text := fmt.Sprintf("-f: must hold one configuration of kube-scheduler, holds %d: %s", len(found), sources(found))
	if slices.ContainsFunc(documents, func(d manifest.Document) bool { return d.Object.GetKind() == configMap }) && o.key == "" {
		text += "; --key names the ConfigMap's key to read"
	}
	return manifest.Document{}, errors.New(text)
}

// keyOf ends the source of a document that is in a ConfigMap.
func keyOf(key string) string { return fmt.Sprintf(", key %q", key) }

// configurations are those that a ConfigMap holds.
func configurations(d manifest.Document) ([]manifest.Document, error) {
	texts, err := data(d.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Source, err)
	}
	var found []manifest.Document
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		source := fmt.Sprintf("%s: ConfigMap %s%s", d.Source, d.Object.GetName(), keyOf(key))
		inside, err := manifest.Text(source, texts[key])
		if err != nil {
			if strings.Contains(texts[key], upstreamconfig.Kind) {
				return nil, err // it was meant to be one
			}
			continue
		}
		for _, document := range inside {
			switch document.Object.GetKind() {
			case upstreamconfig.Kind, upstreamconfig.PolicyKind:
				found = append(found, document)
			}
		}
	}
	return found, nil
}

// data are the texts in a ConfigMap by key.
func data(object *unstructured.Unstructured) (map[string]string, error) {
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

// nothingIn says that there is no configuration in documents, or none under the key;
// all are those that there are.
func nothingIn(documents, all []manifest.Document, key string) error {
	if len(all) > 0 {
		return fmt.Errorf("--key: no ConfigMap holds a configuration of kube-scheduler under %q; there are %s", key, sources(all))
	}
	var there []string
	for _, d := range documents {
		text := d.Object.GetKind() + "/" + d.Object.GetName()
		if d.Object.GetKind() == configMap {
			texts, _ := data(d.Object)
			text += " with the keys " + strings.Join(slices.Sorted(maps.Keys(texts)), ", ")
		}
		there = append(there, text)
	}
	return fmt.Errorf("-f: must hold a %s, a %s, or a ConfigMap with one of them, holds %s", upstreamconfig.Kind, upstreamconfig.PolicyKind, strings.Join(there, "; "))
}

func sources(documents []manifest.Document) string {
	var names []string
	for _, d := range documents {
		names = append(names, d.Source)
	}
	return strings.Join(names, "; ")
}
