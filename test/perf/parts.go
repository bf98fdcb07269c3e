package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	pprof "github.com/google/pprof/profile"
)

// part is a part of the manager's work. A sample of a profile belongs to the first part of
// which a function is on its stack.
type part struct {
	name string
	// function matches names as profiles have them: package.Function.
	function *regexp.Regexp
}

// parts are in an order in which what serves several parts, such as TLS, comes before these.
var parts = []part{
	{"garbage collection", regexp.MustCompile(`^runtime\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|bgscavenge|gcStart|gcMarkDone)`)},
	{"TLS", regexp.MustCompile(`^crypto/`)},
	{"decode", regexp.MustCompile(`\.(Unmarshal|UnmarshalJSON|UnmarshalStrict)$|^k8s\.io/apimachinery/pkg/runtime/serializer/.*\.[dD]ecode`)},
	{"encode", regexp.MustCompile(`\.(Marshal|MarshalTo|MarshalToSizedBuffer|MarshalJSON)$|^k8s\.io/apimachinery/pkg/runtime/serializer/.*\.[eE]ncode`)},
	{"annotation", regexp.MustCompile(`/scheduler/decision\.`)},
	{"events", regexp.MustCompile(`^k8s\.io/client-go/tools/(events|record)\.|/scheduler/recorder\.`)},
	{"explanations", regexp.MustCompile(`/(scheduler/explain|controllers/explainer)[./]`)},
	{"bind and statuses", regexp.MustCompile(`/scheduler/binding\.`)},
	{"queue", regexp.MustCompile(`/scheduler/queue\.`)},
	{"cycle", regexp.MustCompile(`/scheduler/(cycle|plugins|preemption|framework|devices|volumes)[./]`)},
	{"cache and event handlers", regexp.MustCompile(`/scheduler/(cache|eventhandlers|podgroups|scopedinformers)\.`)},
	{"loop", regexp.MustCompile(`/scheduler\.`)},
	{"informers", regexp.MustCompile(`^k8s\.io/client-go/tools/cache\.`)},
	{"HTTP", regexp.MustCompile(`^(net/http|golang\.org/x/net/http2|k8s\.io/client-go/(rest|transport))[./]`)},
	{"operator and metrics", regexp.MustCompile(`^(sigs\.k8s\.io/controller-runtime|github\.com/prometheus)/|/(controllers|operator)[./]`)},
	{"Go's scheduler and network poller", regexp.MustCompile(`^runtime\.(mcall|mstart|schedule|findRunnable|park_m|netpoll|sysmon)`)},
}

// partOfRest is the part of samples that no part matches.
const partOfRest = "the rest"

// partOf returns the name of the part that a sample belongs to.
func partOf(sample *pprof.Sample) string {
	for _, p := range parts {
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if line.Function != nil && p.function.MatchString(line.Function.Name) {
					return p.name
				}
			}
		}
	}
	return partOfRest
}

// partCost is what a part costs for each pod.
type partCost struct {
	Part string `json:"part"`
	// Share is the part of all CPU samples, from 0 to 1, and Micros that part of the CPU time of
	// a pod.
	Share  float64 `json:"share"`
	Micros float64 `json:"cpuMicrosPerPod"`
	Allocs float64 `json:"allocsPerPod"`
	Bytes  float64 `json:"bytesPerPod"`
}

// partCosts returns what each part costs, the most expensive first, in a run with so many pods,
// for each of which Berth took cpuMillis milliseconds of CPU time.
func (p *profiles) partCosts(pods int, cpuMillis float64) []partCost {
	cpu, allocs := p.cpu, p.allocs
	byPart := map[string]*partCost{}
	at := func(s *pprof.Sample) *partCost {
		name := partOf(s)
		if byPart[name] == nil {
			byPart[name] = &partCost{Part: name}
		}
		return byPart[name]
	}
	total := 0.0
	for _, s := range cpu.Sample {
		at(s).Share += float64(s.Value[valueIndex(cpu, "cpu")])
		total += float64(s.Value[valueIndex(cpu, "cpu")])
	}
	for _, s := range allocs.Sample {
		c := at(s)
		c.Allocs += float64(s.Value[valueIndex(allocs, "alloc_objects")]) / float64(pods)
		c.Bytes += float64(s.Value[valueIndex(allocs, "alloc_space")]) / float64(pods)
	}
	var all []partCost
	for _, c := range byPart {
		if total > 0 {
			c.Share /= total
		}
		c.Micros = 1000 * c.Share * cpuMillis
		all = append(all, *c)
	}
	sortParts(all)
	return all
}

// profiles are the profiles of Berth in one run: of the CPU for a part of it, and of all
// allocations.
type profiles struct{ cpu, allocs *pprof.Profile }

// readProfiles reads the profiles of a run, whose allocations are those after the first.
func readProfiles(cpu, allocsBefore, allocsAfter string) (*profiles, error) {
	var all []*pprof.Profile
	for _, file := range []struct{ path, kind string }{{cpu, "cpu"}, {allocsBefore, "alloc_objects"}, {allocsAfter, "alloc_objects"}} {
		p, err := readProfile(file.path, file.kind)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	all[1].Scale(-1)
	allocs, err := pprof.Merge(all[1:])
	if err != nil {
		return nil, err
	}
	return &profiles{all[0], allocs}, nil
}

// meanParts returns the means of what each part costs over the runs that have it.
func meanParts(runs []run) (means []partCost) {
	index, n := map[string]int{}, 0.0
	for _, r := range runs {
		if len(r.Parts) == 0 {
			continue
		}
		n++
		for _, c := range r.Parts {
			at, ok := index[c.Part]
			if !ok {
				at = len(means)
				index[c.Part], means = at, append(means, partCost{Part: c.Part})
			}
			m := &means[at]
			m.Share, m.Micros, m.Allocs, m.Bytes = m.Share+c.Share, m.Micros+c.Micros, m.Allocs+c.Allocs, m.Bytes+c.Bytes
		}
	}
	for i := range means {
		m := &means[i]
		m.Share, m.Micros, m.Allocs, m.Bytes = m.Share/n, m.Micros/n, m.Allocs/n, m.Bytes/n
	}
	sortParts(means)
	return means
}

// sortParts puts the most expensive first.
func sortParts(all []partCost) {
	slices.SortFunc(all, func(a, b partCost) int {
		return cmp.Or(cmp.Compare(b.Micros, a.Micros), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Part, b.Part))
	})
}

// valueIndex returns the index of the values of a type, which the profile must have.
func valueIndex(p *pprof.Profile, kind string) int {
	return slices.IndexFunc(p.SampleType, func(t *pprof.ValueType) bool { return t.Type == kind })
}

// readProfile reads a profile and checks that it has values of a type.
func readProfile(path, kind string) (*pprof.Profile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := pprof.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if valueIndex(p, kind) < 0 {
		return nil, fmt.Errorf("%s: a profile without %s", path, kind)
	}
	return p, nil
}

// partTable prints what each part of Berth costs, one a row.
func partTable(out io.Writer, costs []partCost) {
	table(out, func(row func(cells ...any)) {
		row("part of Berth", "CPU %", "CPU µs/pod", "allocs/pod", "KB/pod")
		var sum partCost
		for _, c := range costs {
			row(c.Part, fmt.Sprintf("%.1f", 100*c.Share), digits(c.Micros), digits(c.Allocs), digits(c.Bytes/1000))
			sum.Micros, sum.Allocs, sum.Bytes = sum.Micros+c.Micros, sum.Allocs+c.Allocs, sum.Bytes+c.Bytes
		}
		row("all", "100", digits(sum.Micros), digits(sum.Allocs), digits(sum.Bytes/1000))
	})
}

// recordSeconds is the length of a CPU profile of Berth: the drain of 5,000 pods on a slow
// machine, where five seconds had 148 samples.
const recordSeconds = 15

// record takes profiles of Berth from when the manager is ready, where --profiles is set. The
// caller calls stop at the end of the run, which takes the last one.
func (t *runner) record(ctx context.Context) (stop func(r *run) error) {
	if t.options.profiles == "" || t.side.name != berth {
		return func(*run) error { return nil }
	}
	path := func(kind string) string {
		return filepath.Join(t.options.profiles, fmt.Sprintf("berth-%s-%s-%d%s.pprof", t.shape.name, t.load, t.round, kind))
	}
	manager, done := t.manager, make(chan error, 1)
	go func() {
		err := manager.Until(ctx, manager.Ready)
		if err == nil {
			err = manager.AllocsProfile(ctx, path("-allocs-before"))
		}
		if err == nil {
			err = manager.CPUProfile(ctx, recordSeconds, path(""))
		}
		done <- err
	}()
	return func(r *run) error {
		if err := <-done; err != nil {
			return err
		}
		if err := manager.AllocsProfile(ctx, path("-allocs-after")); err != nil {
			return err
		}
		var err error
		r.profiles, err = readProfiles(path(""), path("-allocs-before"), path("-allocs-after"))
		return err
	}
}
