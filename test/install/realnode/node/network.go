package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// Name is the name of the real node.
	Name = "real"
	// bridge connects the pods and the processes of the node.
	bridge = "berth0"
	// bridgeMAC is its hardware address, one of those that are assigned locally.
	bridgeMAC = "02:00:0a:58:00:01"
	// gateway is the bridge's address and the node's, in the network of the pods.
	gateway, podNetwork, prefix = "10.88.0.1", "10.88.0.0/16", "/16"
	// serviceAddress is the first address of controlplane's service range: that of
	// the service kubernetes.
	serviceAddress = "10.0.0.1"
)

// bridgeConfig is the CNI configuration of the pods' network; %s is the folder of the
// addresses that are in use.
const bridgeConfig = `{
  "cniVersion": "0.4.0",
  "name": "berth",
  "plugins": [
    {
      "type": "bridge", "bridge": "` + bridge + `", "isGateway": true, "ipMasq": false, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "%s",
        "ranges": [[{"subnet": "` + podNetwork + `", "gateway": "` + gateway + `"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// setUpNetwork makes the bridge, where it is not there yet, in the network namespace
// of this process.
func setUpNetwork(ctx context.Context) error {
	if err := onlyLoopback(); err != nil {
		return err
	}
	if _, err := net.InterfaceByName(bridge); err == nil {
		return nil
	}
	for _, args := range []string{
		"link set lo up",
		// Without an address of its own a bridge has the lowest one of its ports: when that
		// pod comes or goes, the others send to an address that is gone for half a minute.
		"link add " + bridge + " address " + bridgeMAC + " type bridge",
		"addr add " + gateway + prefix + " dev " + bridge,
		"addr add " + serviceAddress + "/32 dev " + bridge,
		"link set " + bridge + " up",
	} {
		if err := run(ctx, "ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

// onlyLoopback returns an error in a network namespace from which packets can leave
// the machine.
func onlyLoopback() error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		ours := i.Name == "lo" || i.Name == bridge || strings.HasPrefix(i.Name, "veth")
		// A new namespace has the fallback devices of tunnels, which are down.
		if !ours && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("this network namespace has the interface %s: run the suite with `make real-node`, which makes a namespace", i.Name)
		}
	}
	return nil
}

func writeNetworkConfig(dir string) error {
	folder := filepath.Join(dir, "cni")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf(bridgeConfig, filepath.Join(dir, "addresses"))
	return os.WriteFile(filepath.Join(folder, "10-berth.conflist"), []byte(text), 0o644)
}

// run runs a program of the machine. Its error holds what the program printed.
func run(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

// output runs a program and returns what it printed. Its error holds that, too.
func output(ctx context.Context, name string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = errors.New(strings.TrimSpace(fmt.Sprintf("%s %s: %v: %s", name, strings.Join(args, " "), err, text)))
	}
	return string(text), err
}
