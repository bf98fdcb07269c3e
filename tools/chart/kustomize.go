package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Component is a kustomize component that is a value of the chart.
type Component struct {
	// Value is its name below components in the values.
	Value string
	// Folder is its folder below config.
	Folder string
	// Description says what it does in a few words.
	Description string
}

// Components are all components. A test fails if a folder of config/components is missing
// here.
var Components = []Component{
	{"highAvailability", "components/high-availability", "replicas on nodes of their own, always"},
	{"priorityClass", "components/priority-class", "system-cluster-critical for Berth's pods"},
	{"networkPolicy", "components/network-policy", "metrics for namespaces with the label metrics.berth.dev/scrape: allowed alone"},
	{"flowControl", "components/flow-control", "FlowSchemas: the API server serves Berth as it serves kube-scheduler"},
	{"extenders", "components/extenders", "--enable-extenders, and the right to read client certificates"},
	{"otherSchedulerLease", "components/other-scheduler-lease", "--other-scheduler-lease for kube-scheduler's Lease, and the right to read it"},
	{"serviceMonitor", "prometheus", "a Service and a ServiceMonitor; needs the Prometheus Operator's kinds"},
	{"alerts", "prometheus/alerts", "a PrometheusRule; needs the Prometheus Operator's kinds"},
	{"dashboard", "grafana", "the dashboard, as a ConfigMap for Grafana's sidecar"},
}

// object is one object of a manifest.
type object map[string]any

func (o object) field(path ...string) string {
	var value any = map[string]any(o)
	for _, key := range path {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	text, _ := value.(string)
	return text
}

// id identifies an object.
func (o object) id() string {
	return o.field("kind") + "/" + o.field("metadata", "namespace") + "/" + o.field("metadata", "name")
}

// build returns the objects that kustomize builds from config/default with components, which
// are folders below config.
func build(components []string) ([]object, error) {
	if err := os.MkdirAll("bin", 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("bin", "chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay := "resources: [../../config/default]\ncomponents:\n"
	for _, folder := range components {
		overlay += "- ../../config/" + folder + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
		return nil, err
	}
	command := exec.Command("go", "tool", "-modfile=tools/dev/go.mod", "kustomize", "build", dir)
	var said bytes.Buffer
	command.Stderr = &said
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kustomize build: %w: %s", err, said.String())
	}
	return parse(string(text))
}

// parse reads the objects of a manifest.
func parse(text string) (objects []object, err error) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, err
		}
		if o != nil {
			objects = append(objects, o)
		}
	}
	return objects, nil
}
