package export

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// render returns what runs as cluster-autoscaler reads it, and lists the settings that
// this form cannot express.
func render(runs *compile.Blueprint, registry framework.Registry) (text string, lost []string, err error) {
	config, remarks := upstreamconfig.ForAutoscaler(runs, registry)
	plain, err := upstreamconfig.JSON(config)
	if err != nil {
		return "", nil, err
	}
	body, err := yaml.JSONToYAML(plain)
	if err != nil {
		return "", nil, err
	}
	text = fmt.Sprintf("# What SchedulingProfile %s runs (%s), written by Berth: edits are reverted.\n", runs.Name, runs.Hash)
	for _, r := range remarks {
		text += "# " + r.String() + "\n"
		if r.Lost && !fault.ExportSaysAll {
			lost = append(lost, r.String())
		}
	}
	return text + string(body), lost, nil
}
