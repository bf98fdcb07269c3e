// Command perf measures Berth, kube-scheduler and the null binder, in one run on one machine:
//
//   - algorithm: both schedulers replay one log without an API server; only equal decisions
//
// are compared;
//   - process: each side in turn on a new etcd and a real API server, round by round, with the
//
// CPU time of every process.
//
// It prints tables and writes JSON. A ratio is printed only where both sides made the same
// decisions.
//
//	go run ./test/perf --nodes=50 --existing=0 --pods=200 --rounds=1
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/command"
)

func main() {
	command.Main("bench", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return perf(ctx, o, out)
	})
}

// options are the flags.
type options struct {
	layers, shapes, loads, sides []string
	nodes, zones, existing, pods int
	rates, shares                []float64
	rate, seconds                float64 // rate is the current one of rates
	unfit                        int
	steps                        []int
	sizes                        []clusterSize
	rounds, warm                 int
	workers, parallelism         int
	kubePlugins                  string
	json, text, logs, profiles   string
	limit                        time.Duration
}

// The allowed values.
var (
	layerNames = []string{"algorithm", "process"}
	loadNames  = []string{"drain", "burst", "burst+unfit", "alternating", "alternating+unfit", "alternating+drain", "open", burstWithChanges, start}
	pluginSets = []string{"same", "default"}
)

// parse reads the flags. The error names the invalid flag and its allowed values.
func parse(args []string) (options, error) {
	var o options
	f := command.Flags("perf")
	f.StringSliceVar(&o.layers, "layers", layerNames, "what to measure: the algorithm alone, whole processes on a real API server")
	f.StringSliceVar(&o.shapes, "shapes", shapeNames(), "the pods; some shapes override the numbers of nodes and pods, and some are for the algorithm alone")
	f.StringSliceVar(&o.loads, "loads", []string{"drain", "open"}, "when pods are created, for whole processes: drain (all before the scheduler starts), burst (all at once while it runs), burst+unfit (burst, beside --unfit pods that fit no node), alternating, alternating+unfit and alternating+drain (burst, burst+unfit and drain of all sides at the same time, each on a control plane that is stopped while another runs; --pods are divided by the number of sides, and each side runs on each control plane), open (at each of --rates; shapes with devices at 20), "+burstWithChanges+" (burst, while 1 % of the nodes change in a second), start (none: the scheduler starts on clusters of --sizes, and binds one pod)")
	f.StringSliceVar(&o.sides, "sides", sideNames(false), "the whole processes to measure; berth-unexplained and berth-recorded show the cost of explanations, slow-profile and slow-profile+pods that of a slow profile for the others")
	f.IntVar(&o.nodes, "nodes", 5000, "nodes, of 4 CPU, 32Gi and 110 pods")
	f.IntVar(&o.zones, "zones", 3, "zones of the nodes, where the shape does not override it")
	f.IntVar(&o.existing, "existing", 5000, "pods that are bound before")
	f.IntVar(&o.pods, "pods", 10000, "pods to schedule; with --loads=open, the rate times --seconds")
	f.Float64SliceVar(&o.rates, "rates", []float64{150}, "pods a second that --loads=open creates, however fast they are bound; each is a load of its own")
	f.Float64SliceVar(&o.shares, "shares", nil, "instead of --rates: parts of the pods a second to the last Event that Berth reached with --loads=burst before, which must be selected as well")
	sizes := f.StringSlice("sizes", []string{"5000:25000", "15000:25000", "5000:75000", "15000:75000"}, "the nodes and bound pods of the clusters of --loads=start; those that differ from the first in one number show what a node or a pod more costs of memory")
	f.IntVar(&o.unfit, "unfit", 10000, "pods that fit no node, with --loads=burst+unfit and alternating+unfit")
	f.IntSliceVar(&o.steps, "node-steps", nil, "also replay basic on these numbers of nodes")
	f.Float64Var(&o.seconds, "seconds", 30, "how long --loads=open creates pods")
	f.IntVar(&o.rounds, "rounds", 5, "runs of each side; ratios are of runs of one round")
	f.IntVar(&o.warm, "warm", 1, "algorithm runs of each side before the first that is measured")
	f.IntVar(&o.workers, "workers", 16, "workers that create pods; --loads=open has eight times as many")
	f.IntVar(&o.parallelism, "kube-parallelism", 16, "kube-scheduler's parallelism")
	f.StringVar(&o.kubePlugins, "kube-plugins", "same", "kube-scheduler's plugins: those that Berth has (same), or its default set")
	f.StringVar(&o.json, "json", filepath.Join("bin", "bench.json"), "the file for the results")
	f.StringVar(&o.text, "text", "", "also write the tables to this file")
	f.StringVar(&o.logs, "logs", "", "keep the algorithm's logs in this folder")
	f.StringVar(&o.profiles, "profiles", "", "write profiles of the CPU and of the allocations of each run of Berth into this folder, and print what each part of it costs for a pod")
	f.DurationVar(&o.limit, "limit", 15*time.Minute, "time limit of one run")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	var errs []error
	for _, text := range *sizes {
		size, err := parseSize(text)
		o.sizes, errs = append(o.sizes, size), append(errs, err)
	}
	return o, errors.Join(append(errs, o.validate())...)
}

func (o options) validate() error {
	var errs []error
	least := func(flag string, value, least float64) {
		if value < least {
			errs = append(errs, fmt.Errorf("--%s: must be at least %v, is %v", flag, least, value))
		}
	}
	known := func(flag string, values, names []string) {
		for _, v := range values {
			if !slices.Contains(names, v) {
				errs = append(errs, fmt.Errorf("--%s: must be of %s, is %q", flag, strings.Join(names, ", "), v))
			}
		}
	}
	known("layers", o.layers, layerNames)
	known("shapes", o.shapes, shapeNames())
	known("loads", o.loads, loadNames)
	known("sides", o.sides, sideNames(true))
	known("kube-plugins", []string{o.kubePlugins}, pluginSets)
	least("nodes", float64(o.nodes), 1)
	least("zones", float64(o.zones), 1)
	least("existing", float64(o.existing), 0)
	least("pods", float64(o.pods), 2)
	for _, rate := range o.rates {
		least("rates", rate, 0.1)
	}
	for _, share := range o.shares {
		least("shares", share, 0.01)
	}
	if burst := slices.Index(o.loads, "burst"); len(o.shares) > 0 && (burst < 0 || burst > slices.Index(o.loads, "open") || !slices.Contains(o.sides, berth)) {
		errs = append(errs, fmt.Errorf("--shares: must be with --loads=burst,open and side %s, which give the rates", berth))
	}
	for _, step := range o.steps {
		least("node-steps", float64(step), 1)
	}
	least("unfit", float64(o.unfit), 1)
	least("seconds", o.seconds, 1)
	least("rounds", float64(o.rounds), 1)
	least("warm", float64(o.warm), 0)
	least("workers", float64(o.workers), 1)
	least("kube-parallelism", float64(o.parallelism), 1)
	least("limit", o.limit.Seconds(), 1)
	return errors.Join(errs...)
}

// pods is the number of pods of a shape that a load schedules.
func (s shape) pods(o options, load string) int {
	if load == start {
		return 1
	}
	if load == "open" {
		rate := o.rate
		if rate == 0 { // no load runs yet: there must be capacity for all
			rate = slices.Max(o.rates)
		}
		return max(2, int(rate*o.seconds))
	}
	return s.withOverrides(o).pods
}

func shapeNames() []string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}
