package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// source is the one document among those of the files that holds a configuration. Others
// beside it, such as the Deployment that mounts a ConfigMap, are passed over.
func (o *options) findConfiguration() (manifest.Document, error) {
	documents, err := manifest.ReadAny("-f", o.files, o.In)
	if err != nil {
		return manifest.Document{}, err
	}
	if len(documents) == 1 && documents[0].Object.GetKind() != manifest.ConfigMap {
		if o.key != "" {
			return manifest.Document{}, fmt.Errorf("--key: goes with a ConfigMap, %s holds a %s", documents[0].Source, documents[0].Object.GetKind())
		}
		return documents[0], nil
	}
	var found, all []manifest.Document
	for _, d := range documents {
		switch kind := d.Object.GetKind(); {
		case kind == manifest.ConfigMap:
			inside, err := manifest.Configurations(d)
			if err != nil {
				return manifest.Document{}, err
			}
			all = append(all, inside...)
		case kind == upstreamconfig.Kind || kind == upstreamconfig.PolicyKind && d.Object.GetAPIVersion() == "v1":
			all = append(all, d)
		}
	}
	for _, d := range all {
		if o.key == "" || strings.HasSuffix(d.Source, manifest.KeySuffix(o.key)) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return manifest.Document{}, noConfigurationError(documents, all, o.key)
	}
	text := fmt.Sprintf("-f: must hold one configuration of kube-scheduler, holds %d: %s", len(found), sourceNames(found))
	if slices.ContainsFunc(documents, func(d manifest.Document) bool { return d.Object.GetKind() == manifest.ConfigMap }) && o.key == "" {
		text += "; --key names the ConfigMap's key to read"
	}
	return manifest.Document{}, errors.New(text)
}

// nothingIn says that there is no configuration in documents, or none under the key;
// all are those that there are.
func noConfigurationError(documents, all []manifest.Document, key string) error {
	if len(all) > 0 {
		return fmt.Errorf("--key: no ConfigMap holds a configuration of kube-scheduler under %q; there are %s", key, sourceNames(all))
	}
	var there []string
	for _, d := range documents {
		text := d.Object.GetKind() + "/" + d.Object.GetName()
		if d.Object.GetKind() == manifest.ConfigMap {
			texts, _ := manifest.ConfigMapData(d.Object)
			text += " with the keys " + strings.Join(slices.Sorted(maps.Keys(texts)), ", ")
		}
		there = append(there, text)
	}
	return fmt.Errorf("-f: must hold a %s, a %s, or a ConfigMap with one of them, holds %s", upstreamconfig.Kind, upstreamconfig.PolicyKind, strings.Join(there, "; "))
}

func sourceNames(documents []manifest.Document) string {
	var names []string
	for _, d := range documents {
		names = append(names, d.Source)
	}
	return strings.Join(names, "; ")
}
