package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

// kubeletOptions say for which node the plugin is, and which folders it shares with the
// kubelet and the container runtime.
type kubeletOptions struct {
	node, kubeletDir string
	specs            specFiles
	devices          []resourceapi.Device
}

func runKubelet(ctx context.Context, args []string, out io.Writer) error {
	f, common := newFlags("kubelet", out)
	var options kubeletOptions
	f.StringVar(&options.node, "node", os.Getenv("NODE_NAME"), "the name of the node; by default $NODE_NAME")
	f.StringVar(&options.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "the root folder of the kubelet")
	f.StringVar(&options.specs.dir, "cdi-dir", kubeletplugin.DefaultCDIDir, "the folder of CDI specifications that the container runtime reads")
	if err := common.parse(f, args); err != nil {
		return err
	}
	options.specs.driver = common.driver
	if options.node == "" {
		return errors.New("--node is missing: it must be the name of the node")
	}
	var err error
	if options.devices, err = common.devices.devices(); err != nil {
		return err
	}
	client, err := common.client()
	if err != nil {
		return err
	}
	return serveKubelet(ctx, client, options, out)
}

// serveKubelet runs the plugin until ctx ends. The kubelet removes the node's ResourceSlices
// some time after that.
func serveKubelet(ctx context.Context, client kubernetes.Interface, options kubeletOptions, out io.Writer) error {
	driver := options.specs.driver
	data := filepath.Join(options.kubeletDir, "plugins", driver)
	registry := filepath.Join(options.kubeletDir, "plugins_registry")
	for _, dir := range []string{data, registry} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	helper, err := kubeletplugin.Start(ctx, newPlugin(options, cancel),
		kubeletplugin.DriverName(driver),
		kubeletplugin.NodeName(options.node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.HealthService(false),
	)
	if err != nil {
		return fmt.Errorf("start the plugin: %w", err)
	}
	defer helper.Stop()
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: options.devices}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{options.node: pool}}); err != nil {
		return fmt.Errorf("publish the devices: %w", err)
	}
	if _, err := fmt.Fprintf(out, "%s serves %d devices of node %s\n", driver, len(options.devices), options.node); err != nil {
		return err
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// plugin prepares claims for the kubelet. The helper serializes its calls.
type plugin struct {
	pool    string
	specs   specFiles
	devices []resourceapi.Device
	// end ends the program with an error.
	end func(error)
}

var _ kubeletplugin.DRAPlugin = &plugin{}

func newPlugin(options kubeletOptions, end func(error)) *plugin {
	return &plugin{pool: options.node, specs: options.specs, devices: options.devices, end: end}
}

// PrepareResourceClaims writes a CDI specification for each claim.
func (p *plugin) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := p.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (p *plugin) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	holders, err := p.specs.holders()
	if err != nil {
		return nil, err
	}
	var devices []kubeletplugin.Device
	var specs []cdiDevice
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != p.specs.driver {
			continue
		}
		at := slices.IndexFunc(p.devices, func(d resourceapi.Device) bool { return d.Name == result.Device })
		if result.Pool != p.pool || at < 0 {
			return nil, fmt.Errorf("device %s of pool %s does not exist: this is the driver of node %s", result.Device, result.Pool, p.pool)
		}
		shared := isTrue(p.devices[at].AllowMultipleAllocations) || isTrue(result.AdminAccess)
		if holder, held := holders[result.Device]; held && holder != claim.UID && !shared {
			return nil, fmt.Errorf("device %s is prepared for the claim with UID %s", result.Device, holder)
		}
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, ShareID: result.ShareID,
			CDIDeviceIDs: []string{p.specs.id(claim.UID, result.Device)},
		})
		// Two requests may have shares of one device.
		if spec := (cdiDevice{result.Device, fmt.Sprintf("GPU_DEVICE_%d=%s", at, result.Device)}); !slices.Contains(specs, spec) {
			specs = append(specs, spec)
		}
	}
	return devices, p.specs.write(claim.UID, specs)
}

func isTrue(b *bool) bool { return b != nil && *b }

// UnprepareResourceClaims removes the CDI specifications of the claims.
func (p *plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = p.specs.remove(claim.UID)
	}
	return results, nil
}

// HandleError logs an error of the background, and ends the program if it is fatal.
func (p *plugin) HandleError(ctx context.Context, err error, message string) {
	klog.FromContext(ctx).Error(err, message)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.end(fmt.Errorf("%s: %w", message, err))
	}
}

// WatchHealthStatus reports nothing: devices that do not exist are not unhealthy.
func (p *plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
