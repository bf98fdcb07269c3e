package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// batchSize is how many ops are decoded before they are timed together, so that reading the
// clock and the heap's counters adds nothing to the cost of a pod.
const batchSize = 256

// Bench is what a run cost.
type Bench struct {
	Pods         int     `json:"pods"`
	MicrosPerPod float64 `json:"us_per_pod"`
	AllocsPerPod float64 `json:"allocs_per_pod"`
	BytesPerPod  float64 `json:"bytes_per_pod"`
	// SHA256 is over the lines of all outcomes.
	SHA256 string `json:"sha256"`
}

// meter sums what the timed ops cost.
type meter struct {
	spent         time.Duration
	allocs, bytes uint64
	lines         hash.Hash
}

// Measure runs the log through s and returns the cost from a decoded pod to an assumed one,
// with all that is derived from the pod and all events from the first attempt on, without
// decoding and printing.
func Measure(s Scheduler, next func() (log.Op, error)) (Bench, error) {
	m := &meter{lines: sha256.New()}
	cluster := NewCluster(s)
	pods, started := 0, false
	for {
		ops, err := readBatch(next)
		for !started && len(ops) > 0 {
			if started = ops[0].Kind == log.Schedule; started {
				break // objects before the first attempt are not part of its cost
			}
			if _, err := cluster.Do(ops[0]); err != nil {
				return Bench{}, err
			}
			ops = ops[1:]
		}
		if pods == 0 && started {
			if err := s.UpdateSnapshot(); err != nil {
				return Bench{}, err
			}
		}
		n, failed := m.run(cluster, ops)
		pods += n
		if failed != nil {
			return Bench{}, failed
		}
		if errors.Is(err, io.EOF) {
			return m.result(pods), nil
		}
		if err != nil {
			return Bench{}, err
		}
	}
}

// readBatch decodes up to batchSize ops. The ops are valid even with an error.
func readBatch(next func() (log.Op, error)) ([]log.Op, error) {
	ops := make([]log.Op, 0, batchSize)
	for len(ops) < batchSize {
		op, err := next()
		if err != nil {
			return ops, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// run times ops, and returns the number of attempts among them.
func (m *meter) run(cluster *Cluster, ops []log.Op) (int, error) {
	outcomes := make([]*Outcome, 0, len(ops))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	for _, op := range ops {
		outcome, err := cluster.Do(op)
		if err != nil {
			return 0, err
		}
		if outcome != nil {
			outcomes = append(outcomes, outcome)
		}
	}
	m.spent += time.Since(begin)
	runtime.ReadMemStats(&after)
	m.allocs += after.Mallocs - before.Mallocs
	m.bytes += after.TotalAlloc - before.TotalAlloc
	for _, outcome := range outcomes {
		outcome.Candidates = nil // the other candidates are not part of the decision
		text, err := outcome.Line()
		if err != nil {
			return 0, err
		}
		m.lines.Write(text)
	}
	return len(outcomes), nil
}

func (m *meter) result(pods int) Bench {
	each := func(sum float64) float64 { return math.Round(sum/math.Max(1, float64(pods))*1000) / 1000 }
	return Bench{
		Pods:         pods,
		MicrosPerPod: each(float64(m.spent.Nanoseconds()) / 1000),
		AllocsPerPod: each(float64(m.allocs)),
		BytesPerPod:  each(float64(m.bytes)),
		SHA256:       hex.EncodeToString(m.lines.Sum(nil)),
	}
}

// Line returns the bench as one line of JSON.
func (b Bench) Line() ([]byte, error) {
	text, err := json.Marshal(b)
	return append(text, '\n'), err
}
