package node

import (
	"context"
	"fmt"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/controlplane"
)

// Specifications returns the paths of the CDI specifications: one for each claim that is
// prepared.
func (c *Cluster) Specifications() ([]string, error) {
	return filepath.Glob(filepath.Join(c.cdi(), "*"))
}

// StartDeviceDriver starts test/support/devicedriver, built at path, as the plugin of the
// real node, with the rights of the node. It returns when the devices are published.
func (c *Cluster) StartDeviceDriver(ctx context.Context, path, driver string, devices int) (*controlplane.Process, error) {
	kubeconfig, err := c.nodeKubeconfig()
	if err != nil {
		return nil, err
	}
	p, err := c.Run(path, "kubelet", "--kubeconfig="+kubeconfig, "--node="+Name, "--driver="+driver,
		fmt.Sprintf("--devices=%d", devices), "--kubelet-dir="+c.root(), "--cdi-dir="+c.cdi())
	if err != nil {
		return nil, err
	}
	return p, p.Until(ctx, func(ctx context.Context) error {
		slices, err := c.Client().ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + driver})
		if err == nil && len(slices.Items) == 0 {
			err = fmt.Errorf("there is no ResourceSlice of driver %s", driver)
		}
		return err
	})
}
