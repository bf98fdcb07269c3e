package framework

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

func missingInterfaceError(plugin string, point Point) error {
	return &PluginError{Plugin: plugin, Err: fmt.Errorf("what its constructor returned does not implement %s", point)}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// chain puts the built plugins into their chains.
func (f *Framework) buildChains(chains Chains, built map[string]fwk.Plugin) error {
	var sorts []fwk.QueueSortPlugin
	var filters []fwk.FilterPlugin
	err := firstError(
		buildChain(chains, PreEnqueue, built, &f.preEnqueue),
		buildChain(chains, QueueSort, built, &sorts),
		buildChain(chains, PreFilter, built, &f.preFilter),
		buildChain(chains, Filter, built, &filters),
		buildChain(chains, PostFilter, built, &f.postFilter),
		buildChain(chains, PreScore, built, &f.preScore),
		buildChain(chains, Reserve, built, &f.reserve),
		buildChain(chains, Permit, built, &f.permit),
		buildChain(chains, PreBind, built, &f.preBind),
		buildChain(chains, Bind, built, &f.bind),
		buildChain(chains, PostBind, built, &f.postBind),
	)
	if err != nil {
		return err
	}
	for _, plugin := range filters {
		f.filter = append(f.filter, countedFilter{plugin, uncounted})
	}
	for _, entry := range chains[Score] {
		plugin, ok := built[entry.Name].(fwk.ScorePlugin)
		if !ok {
			return missingInterfaceError(entry.Name, Score)
		}
		f.score = append(f.score, weightedScore{plugin, entry.Name, int64(entry.Weight)})
	}
	if len(sorts) != 1 {
		return fmt.Errorf("queueSort: %d plugins, want one", len(sorts))
	}
	f.sort = sorts[0]
	return nil
}

func buildChain[P fwk.Plugin](chains Chains, point Point, built map[string]fwk.Plugin, into *[]P) error {
	for _, entry := range chains[point] {
		plugin, ok := built[entry.Name].(P)
		if !ok {
			return missingInterfaceError(entry.Name, point)
		}
		*into = append(*into, plugin)
	}
	return nil
}
