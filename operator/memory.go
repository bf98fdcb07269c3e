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

// minCacheSize is the smallest --equivalence-cache-size.
var minCacheSize = resource.MustParse("16Mi")

// gcPercent lets the heap grow to three times what is live before the garbage collector runs:
// marking the objects of all nodes and pods is a fifth of what a bound pod costs with Go's
// default of 100. The memory limit of the Go runtime still holds.
const gcPercent = 200

// setGCPercent makes the garbage collector run by gcPercent, unless the environment variable
// GOGC is set.
func setGCPercent(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// containerMemory is the memory limit of the process in bytes; 0 for no limit.
type containerMemory int64

// setGoMemoryLimit makes the garbage collector keep the heap below nine tenths of the
// limit, unless the environment variable GOMEMLIMIT is set. The rest is for memory that
// the Go runtime does not count.
func (m containerMemory) setGoMemoryLimit(getenv func(string) string, log logr.Logger) {
	if m == 0 || getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := m.goMemoryLimit()
	debug.SetMemoryLimit(limit)
	log.Info("Set the memory limit of the Go runtime to nine tenths of the container's; GOMEMLIMIT overrides this", "limit", int64(m), "goMemLimit", limit)
}

// goMemoryLimit returns nine tenths of the limit.
func (m containerMemory) goMemoryLimit() int64 { return int64(m) / 10 * 9 }

// equivalenceCacheSize returns how many bytes all equivalence caches together may use:
// the value of the flag, or a quarter of the limit.
func (m containerMemory) equivalenceCacheSize(flag *resource.Quantity) int {
	switch {
	case !flag.IsZero():
		return int(flag.Value())
	case m == 0:
		return cycle.DefaultBudget
	}
	return int(max(int64(m)/4, minCacheSize.Value()))
}

// readContainerMemory reads the memory limit of the container, or of any cgroup that
// contains the process, from the file system root. It supports cgroup v2 and v1.
func readContainerMemory(root fs.FS) containerMemory {
	lowest := int64(math.MaxInt64)
	for _, file := range limitFiles(root) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		// cgroup v2 has "max" for no limit, which is not a number.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			lowest = min(lowest, limit)
		}
	}
	// cgroup v1 has a number near the largest int64 for no limit.
	if lowest >= 1<<60 {
		return 0
	}
	return containerMemory(lowest)
}

// limitFiles returns the files that may hold a limit. In a container the cgroup is
// usually mounted at the root of the cgroup file system; elsewhere /proc/self/cgroup
// has its path.
func limitFiles(root fs.FS) []string {
	const mounted = "sys/fs/cgroup"
	files := []string{mounted + "/memory.max", mounted + "/memory/memory.limit_in_bytes"}
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // without it only the files above are read
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
