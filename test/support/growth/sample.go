// Package growth samples what a manager holds (memory, goroutines, descriptors, metric series,
// handlers of informers), and says whether one of them grows.
package growth

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/operator"
)

// Sample is what a manager holds at one time.
type Sample struct {
	// Seconds is the time since the load began.
	Seconds float64 `json:"seconds"`
	// Heap is the live heap after a collection, and Resident the resident memory, in MiB.
	Heap     float64 `json:"heapMiB"`
	Resident float64 `json:"residentMiB"`
	// Descriptors are open files and sockets, Series the time series of /metrics, and Handlers
	// the event handlers of all informers.
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
	Series      float64 `json:"series"`
	Handlers    float64 `json:"handlers"`

	// families has the number of series by the name of the metric; nil in a sample that was stored.
	families map[string]float64
}

// Quantity is a field of a Sample.
type Quantity struct {
	Name, Unit string
	// Bound is how much of it a manager may gain in an hour: see Line.Grows.
	Bound float64
	Of    func(Sample) float64
}

// Quantities are all of them. A leak of one object for each change of a profile is 1,000 an hour
// and more under the load of the soak: the bounds are what noise and slow caches need.
var Quantities = []Quantity{
	{"heap after GC", "MiB", 3, func(s Sample) float64 { return s.Heap }},
	{"resident memory", "MiB", 10, func(s Sample) float64 { return s.Resident }},
	{"goroutines", "", 5, func(s Sample) float64 { return s.Goroutines }},
	{"descriptors", "", 2, func(s Sample) float64 { return s.Descriptors }},
	{"metric series", "", 5, func(s Sample) float64 { return s.Series }},
	{"informer handlers", "", 0.5, func(s Sample) float64 { return s.Handlers }},
}

// fillTime is how many seconds the slowest of the manager's caches fills: an Event is held for the
// six minutes in which another one would make it a series, and until the sweep of each minute.
const fillTime = 480

// warmUp returns how long the manager's caches and pools may fill before a run of this length
// counts: a quarter of it, and at least fillTime where it is longer than twice that.
func warmUp(seconds float64) float64 { return max(seconds/4, min(fillTime, seconds/2)) }

// AfterWarmUp returns the samples that count.
func AfterWarmUp(samples []Sample) []Sample {
	if len(samples) == 0 {
		return nil
	}
	begin := samples[0].Seconds
	from := begin + warmUp(samples[len(samples)-1].Seconds-begin)
	for i, s := range samples {
		if s.Seconds >= from {
			return samples[i:]
		}
	}
	return nil
}

// Lines fits a line to each quantity, by its name, without the warm-up. A quantity has none where
// there are too few samples.
func Lines(samples []Sample) map[string]Line {
	lines := map[string]Line{}
	samples = AfterWarmUp(samples)
	for _, q := range Quantities {
		var seconds, values []float64
		for _, s := range samples {
			seconds, values = append(seconds, s.Seconds), append(values, q.Of(s))
		}
		if line, ok := Fit(seconds, values); ok {
			lines[q.Name] = line
		}
	}
	return lines
}

// Findings returns a sentence for each quantity that grows.
func Findings(lines map[string]Line) (found []string) {
	for _, q := range Quantities {
		if line, ok := lines[q.Name]; ok && line.Grows(q.Bound) {
			unit := strings.TrimSpace(q.Unit + " an hour")
			found = append(found, fmt.Sprintf("%s: grows by %s %s, and may grow by %g", q.Name, line, unit, q.Bound))
		}
	}
	return found
}

// Read takes a sample of a manager, which collects garbage for it. token may read /metrics, and
// began is when the load began.
func Read(ctx context.Context, m *operator.Manager, token string, began time.Time) (Sample, error) {
	var s Sample
	heap, err := profile(ctx, m, "heap?gc=1&debug=1")
	if err == nil {
		s.Heap, err = heapAlloc(heap)
	}
	if err != nil {
		return s, fmt.Errorf("reading the heap: %w", err)
	}
	stacks, err := profile(ctx, m, "goroutine?debug=1")
	if err == nil {
		s.Goroutines, s.Handlers, err = goroutines(stacks)
	}
	if err != nil {
		return s, fmt.Errorf("reading the goroutines: %w", err)
	}
	status, metrics, err := m.Scrape(ctx, token)
	if err != nil || status != 200 {
		return s, fmt.Errorf("reading the metrics: status %d: %w", status, err)
	}
	s.families = series(metrics)
	for _, n := range s.families {
		s.Series += n
	}
	if s.Resident, s.Descriptors, err = process(m.PID()); err != nil {
		return s, err
	}
	s.Seconds = time.Since(began).Seconds()
	return s, nil
}

// profile returns a profile of /debug/pprof as text.
func profile(ctx context.Context, m *operator.Manager, name string) (string, error) {
	answer, err := operator.Get(ctx, "http://"+m.Profiles+"/debug/pprof/"+name)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(answer, "200 ")
	if !ok {
		return "", fmt.Errorf("the answer begins with %.100q", answer)
	}
	return text, nil
}

const mib = 1 << 20

// heapAlloc returns the live heap in MiB of a heap profile in text.
func heapAlloc(profile string) (float64, error) {
	const field = "# HeapAlloc = "
	for line := range strings.Lines(profile) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), field); is {
			bytes, err := strconv.ParseFloat(text, 64)
			return bytes / mib, err
		}
	}
	return 0, fmt.Errorf("the profile has no line %q", field)
}

var (
	goroutineTotal = regexp.MustCompile(`(?m)^goroutine profile: total (\d+)$`)
	// goroutineStack is the first line of equal stacks, with their number.
	goroutineStack = regexp.MustCompile(`^(\d+) @ `)
)

// listener is the function of client-go that runs for each event handler of an informer.
const listener = "(*processorListener).run"

// goroutines returns how many goroutines a profile in text has, and how many of them are event
// handlers of informers.
func goroutines(profile string) (total, handlers float64, err error) {
	found := goroutineTotal.FindStringSubmatch(profile)
	if found == nil {
		return 0, 0, fmt.Errorf("the profile has no total of goroutines")
	}
	total, _ = strconv.ParseFloat(found[1], 64) // digits
	for stack := range strings.SplitSeq(profile, "\n\n") {
		for line := range strings.Lines(stack) {
			if n := goroutineStack.FindStringSubmatch(line); n != nil && strings.Contains(stack, listener) {
				alike, _ := strconv.ParseFloat(n[1], 64)
				handlers += alike
			}
		}
	}
	return total, handlers, nil
}

// series returns the number of time series in the text format, by the name of the metric.
func series(metrics []byte) map[string]float64 {
	families := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		if text := lines.Text(); text != "" && !strings.HasPrefix(text, "#") {
			families[text[:strings.IndexAny(text+" ", "{ ")]]++
		}
	}
	return families
}

// NewSeries names the metrics that have more series in the last sample than in the first one after
// the warm-up, and how many more; empty for none.
func NewSeries(samples []Sample) string {
	samples = AfterWarmUp(samples)
	if len(samples) == 0 {
		return ""
	}
	before, after := samples[0].families, samples[len(samples)-1].families
	var more []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n > 0 {
			more = append(more, fmt.Sprintf("%s +%.0f", name, n))
		}
	}
	return strings.Join(more, ", ")
}

// process returns the resident memory in MiB and the open descriptors of a process.
func process(pid int) (resident, descriptors float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("memory of process %d (is this Linux?): %w", pid, err)
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, 0, fmt.Errorf("/proc/%d/statm: %w", pid, err)
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return pages * float64(os.Getpagesize()) / mib, float64(len(open)), err
}
