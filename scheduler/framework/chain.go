package framework

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

func misplaced(plugin string, point Point) error {
	return &PluginError{Plugin: plugin, Err: fmt.Errorf("what its constructor returned does not implement %s", point)}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// chain puts the built plugins into their chains.
func (f *Framework) chain(chains Chains, built map[string]fwk.Plugin) error {
	var sorts []fwk.QueueSortPlugin
	var filters []fwk.FilterPlugin
	err := firstOf(
		put(chains, PreEnqueue, built, &f.preEnqueue),
		put(chains, QueueSort, built, &sorts),
		put(chains, PreFilter, built, &f.preFilter),
		put(chains, Filter, built, &filters),
		put(chains, PostFilter, built, &f.postFilter),
		put(chains, PreScore, built, &f.preScore),
		put(chains, Reserve, built, &f.reserve),
		put(chains, Permit, built, &f.permit),
		put(chains, PreBind, built, &f.preBind),
		put(chains, Bind, built, &f.bind),
		put(chains, PostBind, built, &f.postBind),
	)
	if err != nil {
		return err
	}
	for _, plugin := range filters {
		f.filter = append(f.filter, filterer{plugin, uncounted})
	}
	for _, entry := range chains[Score] {
		plugin, ok := built[entry.Name].(fwk.ScorePlugin)
		if !ok {
			return misplaced(entry.Name, Score)
		}
		f.score = append(f.score, scorer{plugin, entry.Name, int64(entry.Weight)})
	}
	if len(sorts) != 1 {
		return fmt.Errorf("queueSort: %d plugins, want one", len(sorts))
	}
	f.sort = sorts[0]
	return nil
}

func put[P fwk.Plugin](chains Chains, point Point, built map[string]fwk.Plugin, into *[]P) error {
	for _, entry := range chains[point] {
		plugin, ok := built[entry.Name].(P)
		if !ok {
			return misplaced(entry.Name, point)
		}
		*into = append(*into, plugin)
	}
	return nil
}
