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

// findConfiguration returns the one document of the files that is a configuration. Documents
// of other kinds, such as the Deployment that mounts a ConfigMap, are ignored.
func (o *options) findConfiguration() (manifest.Document, error) {
	documents, err := manifest.ReadAny("-f", o.files, o.In)
	if err != nil {
		return manifest.Document{}, err
	}
	if len(documents) == 1 && documents[0].Object.GetKind() != manifest.ConfigMap {
		if o.key != "" {
			return manifest.Document{}, fmt.Errorf("--key: requires a ConfigMap, %s contains a %s", documents[0].Source, documents[0].Object.GetKind())
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
	text := fmt.Sprintf("-f: must contain one configuration of kube-scheduler, contains %d: %s", len(found), sourceNames(found))
	if slices.ContainsFunc(documents, func(d manifest.Document) bool { return d.Object.GetKind() == manifest.ConfigMap }) && o.key == "" {
		text += "; select a key of the ConfigMap with --key"
	}
	return manifest.Document{}, errors.New(text)
}

// noConfigurationError returns the error for documents without a configuration, or without
// one under the key. all are the configurations that were found.
func noConfigurationError(documents, all []manifest.Document, key string) error {
	if len(all) > 0 {
		return fmt.Errorf("--key: no ConfigMap has a configuration of kube-scheduler under %q; found %s", key, sourceNames(all))
	}
	var contents []string
	for _, d := range documents {
		text := d.Object.GetKind() + "/" + d.Object.GetName()
		if d.Object.GetKind() == manifest.ConfigMap {
			texts, _ := manifest.ConfigMapData(d.Object)
			text += " with the keys " + strings.Join(slices.Sorted(maps.Keys(texts)), ", ")
		}
		contents = append(contents, text)
	}
	return fmt.Errorf("-f: must contain a %s, a %s, or a ConfigMap with one of them, contains %s", upstreamconfig.Kind, upstreamconfig.PolicyKind, strings.Join(contents, "; "))
}

func sourceNames(documents []manifest.Document) string {
	var names []string
	for _, d := range documents {
		names = append(names, d.Source)
	}
	return strings.Join(names, "; ")
}
