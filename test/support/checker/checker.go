package checker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/history"
)

// Cluster is what a Checker reads: a control plane of package controlplane.
type Cluster interface {
	// Etcd is the URL of etcd for clients.
	Etcd() string
	// Config is that of the administrator.
	Config() *rest.Config
}

// Options are the options of Start. The zero value checks the manager of config/default.
type Options struct {
	// Namespace is that of the manager: berth-system by default. Account is the name of its
	// ServiceAccount, Lease that of its Lease: berth-manager both.
	Namespace, Account, Lease string
	// Audit are the audit logs of the API servers, as AuditFlags makes them. Without one
	// the invariants that need it are not decided.
	Audit []audit.Log
	// FromNow begins with what exists at the start, where the whole history of etcd and the whole
	// audit logs are checked otherwise.
	FromNow bool
	// Namespaces are those whose objects and requests are checked, besides that of the manager and
	// what has no namespace: all by default.
	Namespaces []string
	// Settle is how long End waits for a state in which nothing is pending that should not be:
	// 60 s by default.
	Settle time.Duration
	// Quiet is how long nothing may be written at the end: 2 s by default.
	Quiet time.Duration
	// LongestWait is how long a pod may fit on a node and not be bound while a leader holds the
	// Lease: 60 s by default.
	LongestWait time.Duration
	// SampleEvery is the time between two samples of a process: 5 s by default.
	SampleEvery time.Duration
	// Registry has the plugins with which the final state is evaluated: the in-tree ones by
	// default.
	Registry framework.Registry
	// Skip names invariants that the faults of a suite break on purpose, and why. They are
	// listed in the report as skipped.
	Skip map[Invariant]string
}

func (o Options) withDefaults() Options {
	setDefault(&o.Namespace, "berth-system")
	setDefault(&o.Account, "berth-manager")
	setDefault(&o.Lease, "berth-manager")
	setDefault(&o.Settle, time.Minute)
	setDefault(&o.Quiet, 2*time.Second)
	setDefault(&o.LongestWait, time.Minute)
	setDefault(&o.SampleEvery, 5*time.Second)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// concern reports whether what is in a namespace is checked.
func (o Options) concern(namespace string) bool {
	return namespace == "" || namespace == o.Namespace || len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// user is the name of the manager's account in audit logs.
func (o Options) user() string { return "system:serviceaccount:" + o.Namespace + ":" + o.Account }

// AuditFlags writes a policy into dir, and returns the flags of an API server that logs the
// requests of the manager of config/default. Each API server needs a folder of its own.
func AuditFlags(dir string) (audit.Log, []string, error) {
	return audit.New(dir, audit.User(Options{}.withDefaults().user()))
}

// Checker records what happens in a cluster until End. Its methods are safe for concurrent use.
type Checker struct {
	options  Options
	recorder *history.Recorder
	sampler  *sampler
	ended    sync.Once
	report   Report
	err      error
}

// Start begins to record. ctx bounds the start alone. The caller must call End or Stop.
func Start(ctx context.Context, cluster Cluster, options Options) (*Checker, error) {
	options = options.withDefaults()
	from := int64(1)
	if options.FromNow {
		from = 0
		options.Audit = slices.Clone(options.Audit)
		for i, log := range options.Audit {
			var err error
			if options.Audit[i], err = log.FromNow(); err != nil {
				return nil, err
			}
		}
	}
	recorder, err := history.Start(ctx, cluster.Etcd(), from)
	if err != nil {
		return nil, err
	}
	return &Checker{options: options, recorder: recorder, sampler: startSampler(options.SampleEvery)}, nil
}

// Recorder is the recorder of the cluster's history.
func (c *Checker) Recorder() *history.Recorder { return c.recorder }

// AddProcess samples a process of the manager until it is forgotten or ends.
func (c *Checker) AddProcess(p Process) { c.sampler.add(p) }

// ForgetProcess says that the suite ends a process: that it ends is not a violation any more. Call
// it before the process is ended.
func (c *Checker) ForgetProcess(name string) { c.sampler.forget(name) }

// Stop ends the recording without a report. It may be called after End, and more than once.
func (c *Checker) Stop() {
	c.ended.Do(func() {
		c.err = errors.New("the checker was stopped")
		c.stop()
	})
}

func (c *Checker) stop() {
	c.sampler.stop()
	c.recorder.Stop()
}

// looksPerQuiet is how often the state is looked at within Options.Quiet, at least, until it is
// settled.
const looksPerQuiet = 4

// End waits until the state is settled, or Options.Settle is over, ends the recording, and
// decides the invariants. The load of the suite must have ended, and a manager must run. The
// error says that the inputs could not be read. Further calls return the same.
func (c *Checker) End(ctx context.Context) (Report, error) {
	c.ended.Do(func() {
		defer c.stop()
		var in Input
		if in, c.err = c.settle(ctx); c.err == nil {
			c.report = Check(in)
		}
	})
	return c.report, c.err
}

// settle waits until no violation of the final state is left that may still go away, and nothing
// was written for Options.Quiet. It returns all inputs.
func (c *Checker) settle(ctx context.Context) (Input, error) {
	begin := time.Now()
	for {
		in, err := c.readHistory(ctx)
		if err != nil {
			return in, err
		}
		late, noise := time.Since(begin) >= c.options.Settle, untilQuiet(in)
		if late || noise == 0 && len(checkFinalState(in)) == 0 {
			err := c.readOthers(&in)
			if late || err != nil || len(lateRequests(in)) == 0 {
				return in, err
			}
		}
		again := c.options.Quiet / looksPerQuiet
		if noise > 0 {
			again = min(again, noise)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return in, context.Cause(ctx)
		}
	}
}

// readHistory reads the history as it is now.
func (c *Checker) readHistory(ctx context.Context) (in Input, err error) {
	if err := c.recorder.CatchUp(ctx); err != nil {
		return in, err
	}
	in = Input{Options: c.options, Now: time.Now(), Audited: len(c.options.Audit) > 0}
	in.History, err = c.recorder.History()
	in.narrow()
	return in, err
}

// narrow leaves out what is in namespaces that are not to be checked.
func (in *Input) narrow() {
	in.History.Changes = slices.DeleteFunc(in.History.Changes, func(c history.Change) bool { return !in.Options.concern(c.Object.GetNamespace()) })
	in.Audit = slices.DeleteFunc(in.Audit, func(e audit.Entry) bool { return !in.Options.concern(e.ObjectRef.Namespace) })
}

// readOthers reads the audit logs and the samples.
func (c *Checker) readOthers(in *Input) error {
	for _, log := range c.options.Audit {
		entries, err := log.Entries()
		if err != nil {
			return err
		}
		in.Audit = append(in.Audit, entries...)
	}
	in.narrow()
	in.Samples, in.Exits = c.sampler.all()
	return nil
}
