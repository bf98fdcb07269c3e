package operator

import (
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/berth/scheduler/cycle"
)

// leastCache is the smallest --equivalence-cache-size.
var minCacheSize = resource.MustParse("16Mi")

// memory is how much the process may take, in bytes; 0: as much as it likes.
type containerMemory int64

// limitRuntime has the garbage collector keep the heap below nine tenths of the
// limit, unless the environment variable GOMEMLIMIT says otherwise. The rest is for
// what the Go runtime does not count.
func (m containerMemory) setGoMemoryLimit(getenv func(string) string, log logr.Logger) {
	if m == 0 || getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := m.goMemoryLimit()
	debug.SetMemoryLimit(limit)
	log.Info("The Go runtime keeps to nine tenths of the memory limit; GOMEMLIMIT overrides this", "limit", int64(m), "goMemLimit", limit)
}

// runtimeLimit is nine tenths of the limit.
func (m containerMemory) goMemoryLimit() int64 { return int64(m) / 10 * 9 }

// cacheBytes is what the equivalence caches may take together: as flag says, or a
// quarter of the limit.
func (m containerMemory) equivalenceCacheSize(flag *resource.Quantity) int {
	switch {
	case !flag.IsZero():
		return int(flag.Value())
	case m == 0:
		return cycle.DefaultBudget
	}
	return int(max(int64(m)/4, minCacheSize.Value()))
}

// memoryLimit reads the limit of the container, or of any cgroup that the process
// is in, below root, the file system's. It knows cgroup v2 and v1.
func readContainerMemory(root fs.FS) containerMemory {
	least := int64(math.MaxInt64)
	for _, file := range limitFiles(root) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		// cgroup v2 says max where there is no limit.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			least = min(least, limit)
		}
	}
	// cgroup v1 says a number near the largest where there is no limit.
	if least >= 1<<60 {
		return 0
	}
	return containerMemory(least)
}

// limitFiles are the files that may hold a limit: in a container the cgroup is
// most often mounted as if it were the root; elsewhere /proc/self/cgroup names it.
func limitFiles(root fs.FS) []string {
	const mounted = "sys/fs/cgroup"
	files := []string{mounted + "/memory.max", mounted + "/memory/memory.limit_in_bytes"}
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // without it there are only those
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for at := path.Clean("/" + fields[2]); at != "/"; at = path.Dir(at) {
			switch {
			case fields[0] == "0" && fields[1] == "":
				files = append(files, mounted+at+"/memory.max")
			case fields[1] == "memory":
				files = append(files, mounted+"/memory"+at+"/memory.limit_in_bytes")
			}
		}
	}
	return files
}
