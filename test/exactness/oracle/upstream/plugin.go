package upstream

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)

// Plugin builds one of the profile's plugins for itself, as kube-scheduler
// does. Its Handle is the framework of the profile.
func (s *Scheduler) Plugin(ctx context.Context, name string) (fwk.Plugin, error) {
	build, ok := upstreamplugins.NewInTreeRegistry()[name]
	if !ok {
		return nil, fmt.Errorf("kube-scheduler has no plugin %s", name)
	}
	var args runtime.Object
	for _, given := range s.profile.PluginConfig {
		if given.Name == name {
			args = given.Args
		}
	}
	return build(ctx, args, s.framework)
}

// Nodes are all nodes as of the last Refresh.
func (s *Scheduler) Nodes() []fwk.NodeInfo {
	nodes, _ := s.snapshot.NodeInfos().List() // the snapshot's own list, which never fails
	return nodes
}
