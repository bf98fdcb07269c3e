package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
