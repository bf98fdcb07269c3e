package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroups is where the machine's cgroups are mounted.
const cgroups = "/sys/fs/cgroup"

// Cgroup returns the cgroup of all pods of the node. tools/real-node.sh names it, and
// removes it in the end.
func Cgroup() string {
	if name := os.Getenv("REAL_NODE_CGROUP"); name != "" {
		return "/" + name
	}
	return "/berth-real-node"
}

// MemoryCgroup is the memory cgroup of a container.
type MemoryCgroup struct {
	dir          string
	limit, usage string // the names of its files
}

// MemoryOf returns the memory cgroup of the process with that id.
func MemoryOf(pid int) (MemoryCgroup, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return MemoryCgroup{}, err
	}
	v2, hasV2 := "", false
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if controllers == "memory" {
			return MemoryCgroup{filepath.Join(cgroups, "memory", path), "memory.limit_in_bytes", "memory.usage_in_bytes"}, nil
		}
		if controllers == "" {
			v2, hasV2 = path, true
		}
	}
	if !hasV2 {
		return MemoryCgroup{}, fmt.Errorf("process %d is in no memory cgroup:\n%s", pid, text)
	}
	return MemoryCgroup{filepath.Join(cgroups, v2), "memory.max", "memory.current"}, nil
}

// LimitToUsage lowers the limit to what is used now, so that the next page makes the
// kernel look for memory to take, and kill where it finds none.
func (m MemoryCgroup) LimitToUsage() error {
	text, err := os.ReadFile(filepath.Join(m.dir, m.usage))
	if err != nil {
		return err
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, m.limit), strconv.AppendInt(nil, used, 10), 0o644)
}

// ProcessOf returns the id of the process of that name in a container. An id of a
// container is as in a pod's status, with "containerd://".
func ProcessOf(containerID, name string) (int, error) {
	id := strings.TrimPrefix(containerID, "containerd://")
	if id == "" {
		return 0, errors.New("the container has no id yet")
	}
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || err != nil {
			continue // the process ended meanwhile
		}
		if !bytes.Contains(text, []byte(id)) {
			continue
		}
		dir := filepath.Dir(file)
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && strings.TrimSpace(string(comm)) == name {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("container %s has no process %s", id, name)
}

// Status returns the fields of /proc/PID/status, such as "CapEff" and "Uid".
func Status(pid int) (map[string]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.Join(strings.Fields(value), " ")
	}
	return fields, nil
}

// RootOptions returns the mount options of a process's root file system.
func RootOptions(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "/" {
			return f[3], nil
		}
	}
	return "", fmt.Errorf("process %d has no root in its mounts", pid)
}

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
		known := i.Name == "lo" || i.Name == bridge || strings.HasPrefix(i.Name, "veth")
		// A new namespace has the fallback devices of tunnels, which are down.
		if !known && i.Flags&net.FlagUp != 0 {
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
