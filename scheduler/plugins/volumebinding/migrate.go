package volumebinding

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
)

// migrated are the plugins that were in the tree and whose volumes a CSI driver
// may serve now.
var migratedPlugins = []string{
	csiplugins.AWSEBSInTreePluginName, csiplugins.GCEPDInTreePluginName, csiplugins.AzureDiskInTreePluginName,
	csiplugins.CinderInTreePluginName, csiplugins.PortworxVolumePluginName,
}

// translated is a volume as the CSI driver of a node knows it, where one has
// taken over from the plugin that the volume names: the driver has topology
// labels of its own.
func (p *Plugin) translateToCSI(of *v1.PersistentVolume, node *storagev1.CSINode) (*v1.PersistentVolume, error) {
	if !p.translator.IsPVMigratable(of) {
		return of, nil
	}
	plugin, err := p.translator.GetInTreePluginNameFromSpec(of, nil)
	if err != nil {
		return nil, fmt.Errorf("could not get plugin name from pv: %w", err)
	}
	if !slices.Contains(migratedPlugins, plugin) || !isMigratedOn(node, plugin) {
		return of, nil
	}
	translated, err := p.translator.TranslateInTreePVToCSI(klog.Background(), of)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return translated, nil
}

// tookOver says whether a CSI driver serves the plugin's volumes on the node.
func isMigratedOn(node *storagev1.CSINode, plugin string) bool {
	return node != nil && slices.Contains(strings.Split(node.Annotations[v1.MigratedPluginsAnnotationKey], ","), plugin)
}
