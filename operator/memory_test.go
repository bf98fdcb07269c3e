package operator

import (
	"runtime/debug"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/berth/scheduler/cycle"
)

func cgroupFiles(contents map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, content := range contents {
		fs[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fs
}

func TestMemoryLimitOfTheContainer(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  containerMemory
	}{
		"cgroup v2 in a container":  {map[string]string{"sys/fs/cgroup/memory.max": "2147483648\n", "proc/self/cgroup": "0::/\n"}, 2 << 30},
		"cgroup v2 without a limit": {map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, 0},
		"cgroup v2 with the host's view, and a pod with a smaller limit": {map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1/c1\n", "sys/fs/cgroup/kubepods/pod1/c1/memory.max": "2147483648\n",
			"sys/fs/cgroup/kubepods/pod1/memory.max": "1073741824\n", "sys/fs/cgroup/kubepods/memory.max": "max\n",
		}, 1 << 30},
		"cgroup v1": {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20},
		"cgroup v1 with the host's view": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/c1\n4:memory:/c1\n", "sys/fs/cgroup/memory/c1/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 512 << 20},
		"cgroup v1 without a limit": {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"no cgroup":                 {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readContainerMemory(cgroupFiles(c.files)); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
		})
	}
}

func TestTheMemoryLimitIsDivided(t *testing.T) {
	for name, c := range map[string]struct {
		limit          containerMemory
		flag           string
		runtime, cache int64
	}{
		"a limit":                {2 << 30, "0", (2 << 30) / 10 * 9, 512 << 20},
		"a small limit":          {32 << 20, "0", (32 << 20) / 10 * 9, 16 << 20},
		"no limit":               {0, "0", 0, cycle.DefaultBudget},
		"a limit and a flag":     {2 << 30, "100Mi", (2 << 30) / 10 * 9, 100 << 20},
		"a flag without a limit": {0, "1Gi", 0, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			flag := resource.MustParse(c.flag)
			if got := c.limit.goMemoryLimit(); got != c.runtime {
				t.Errorf("the limit of the Go runtime is %d, want %d", got, c.runtime)
			}
			if got := c.limit.equivalenceCacheSize(&flag); int64(got) != c.cache {
				t.Errorf("the size of the caches is %d, want %d", got, c.cache)
			}
		})
	}
}

func TestTheGarbageCollectorRunsHalfAsOften(t *testing.T) {
	for name, c := range map[string]struct {
		gogc string
		want int
	}{
		"GOGC is not set":           {"", gcPercent},
		"GOGC of the user is kept":  {"50", 100},
		"GOGC=off is kept, as well": {"off", 100},
	} {
		t.Run(name, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(100)) // which the runtime set from GOGC, in a manager
			setGCPercent(func(string) string { return c.gogc })
			if got := debug.SetGCPercent(100); got != c.want {
				t.Errorf("the heap may grow by %d %%, want %d %%", got, c.want)
			}
		})
	}
}
