package checker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a process of the manager.
type Process struct {
	// Name is that in the report.
	Name string
	// PID is its process id.
	PID int
	// Pprof is the address of its /debug/pprof; empty where it is not served.
	Pprof string
}

// Sample is what a process used at some moment. A number is 0 where it could not be read.
type Sample struct {
	At          time.Time
	Goroutines  int64
	Descriptors int64
	// Heap is the number of bytes of the heap after a garbage collection.
	Heap int64
}

// sampleLimit bounds one request to a process, which may be frozen.
const sampleLimit = 2 * time.Second

// sampler samples processes until it is stopped.
type sampler struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu        sync.Mutex
	processes map[string]Process
	samples   map[string][]Sample
	exits     []string
}

func startSampler(every time.Duration) *sampler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sampler{cancel: cancel, processes: map[string]Process{}, samples: map[string][]Sample{}}
	s.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.sampleAll(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return s
}

func (s *sampler) stop() {
	s.cancel()
	s.done.Wait()
}

func (s *sampler) add(p Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[p.Name] = p
}

func (s *sampler) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, name)
}

// all returns the samples so far, and the processes that ended by themselves.
func (s *sampler) all() (map[string][]Sample, []string) {
	s.mu.Lock()
	processes := slices.Collect(maps.Values(s.processes))
	s.mu.Unlock()
	for _, p := range processes {
		s.noteExit(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.samples), slices.Clone(s.exits)
}

func (s *sampler) sampleAll(ctx context.Context) {
	s.mu.Lock()
	processes := slices.Collect(maps.Values(s.processes))
	s.mu.Unlock()
	for _, p := range processes {
		if s.noteExit(p) {
			continue
		}
		sample := p.sample(ctx)
		s.mu.Lock()
		// Another process of the name begins a series of its own.
		series := fmt.Sprintf("%s (%d)", p.Name, p.PID)
		s.samples[series] = append(s.samples[series], sample)
		s.mu.Unlock()
	}
}

// noteExit reports whether a process has ended, and notes it where the suite has not forgotten it.
func (s *sampler) noteExit(p Process) bool {
	if syscall.Kill(p.PID, 0) == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, is := s.processes[p.Name]; is && known.PID == p.PID {
		s.exits = append(s.exits, p.Name)
		delete(s.processes, p.Name)
	}
	return true
}

func (p Process) sample(ctx context.Context) Sample {
	sample := Sample{At: time.Now()}
	if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID)); err == nil {
		sample.Descriptors = int64(len(entries))
	}
	if p.Pprof == "" {
		return sample
	}
	sample.Goroutines = p.read(ctx, "goroutine?debug=1", "goroutine profile: total ")
	sample.Heap = p.read(ctx, "heap?debug=1&gc=1", "# HeapAlloc = ")
	return sample
}

// read returns the number after a prefix in a text of /debug/pprof; 0 where it cannot be read.
func (p Process) read(ctx context.Context, path, prefix string) int64 {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Pprof+"/debug/pprof/"+path, nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return numberAfter(response.Body, prefix)
}

func numberAfter(text io.Reader, prefix string) (n int64) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if rest, is := strings.CutPrefix(lines.Text(), prefix); is {
			_, _ = fmt.Sscan(rest, &n) // n stays 0
			return n
		}
	}
	return 0
}

const (
	// fewestSamples is how many samples of a process say whether a number grows.
	fewestSamples = 16
	// A number grows if the smallest sample of the last quarter exceeds the largest of the second
	// one by more than a part and an amount. The first quarter is the start.
	growthPart                                          = 0.10
	goroutineGrowth, descriptorGrowth, heapGrowth int64 = 20, 10, 8 << 20
)

// checkSamples checks that no process ended by itself, and that none grows.
func (r *results) checkSamples(in Input) {
	for _, name := range in.Exits {
		r.fail(I21, 0, "process "+name, "it ended by itself")
	}
	long := 0
	for _, name := range slices.Sorted(maps.Keys(in.Samples)) {
		r.checked(I21)
		samples := in.Samples[name]
		last := samples[len(samples)-1]
		r.Facts = append(r.Facts, fmt.Sprintf("process %s: %d samples; at the end %d goroutines, %d descriptors, %.1f MiB of heap",
			name, len(samples), last.Goroutines, last.Descriptors, float64(last.Heap)/(1<<20)))
		if len(samples) < fewestSamples {
			continue
		}
		long++
		r.checkGrowth(I8, name, "bytes of heap", samples, heapGrowth, func(s Sample) int64 { return s.Heap })
		r.checkGrowth(I9, name, "goroutines", samples, goroutineGrowth, func(s Sample) int64 { return s.Goroutines })
		r.checkGrowth(I9, name, "descriptors", samples, descriptorGrowth, func(s Sample) int64 { return s.Descriptors })
	}
	if long == 0 {
		why := fmt.Sprintf("no process has %d samples", fewestSamples)
		r.Undecided[I8], r.Undecided[I9] = why, why
	}
	if len(in.Samples)+len(in.Exits) == 0 {
		r.Undecided[I21] = "no process was sampled"
	}
}

// checkGrowth checks one number of the samples of a process.
func (r *results) checkGrowth(i Invariant, name, what string, samples []Sample, amount int64, number func(Sample) int64) {
	r.checked(i)
	var values []int64
	for _, s := range samples {
		if n := number(s); n > 0 {
			values = append(values, n)
		}
	}
	if len(values) < fewestSamples {
		return
	}
	early, late := values[len(values)/4:len(values)/2], values[len(values)*3/4:]
	most, least := slices.Max(early), slices.Min(late)
	if least > most+amount+int64(float64(most)*growthPart) {
		r.fail(i, 0, "process "+name, "it had at most %d %s in the second quarter of the run, and at least %d in the last one", most, what, least)
	}
}
