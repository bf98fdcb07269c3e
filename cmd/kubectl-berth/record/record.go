// Package record is `kubectl berth record`: it writes a log of the decisions that a profile
// makes on a live cluster, so that they can be replayed without the cluster.
package record

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// minDrain and maxDrain bound how long changes are received after the end. Earlier decisions
// may still arrive: bindings in progress, and changes that Berth had observed.
const (
	minDrain = 2 * time.Second
	maxDrain = 10 * time.Second
)

type options struct {
	verb.Env
	file, profile, profileOut string
	orderFile                 string
	nodeOrder                 []string
	duration                  time.Duration
	pods                      int
	cluster                   *cluster.Cluster
	// notes are printed at the end; gaps are what the log lacks that decisions depend on.
	notes, gaps []string
	// interrupted are the watches that are interrupted, and interruption is the last error.
	interrupted  map[*source]bool
	interruption error
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		o.file = args[0]
		return o.run(cmd.Context())
	})
	flags := cmd.Flags()
	flags.StringVar(&o.profile, "profile", "", "the SchedulingProfile whose decisions are recorded; optional if only one exists")
	flags.StringVar(&o.profileOut, "profile-out", "", "the file that the profile is written to (default: LOG.jsonl.profile.yaml)")
	flags.StringVar(&o.orderFile, "node-order", "", "file with the order of the nodes, the output of /debug/berth/order of the manager (default: inferred and verified)")
	flags.DurationVar(&o.duration, "for", 0, "how long to record; 0: until --pods or ^C")
	flags.IntVar(&o.pods, "pods", 0, "end after this many decisions of the profile; 0 for no limit")
	cmd.ValidArgsFunction = complete.FirstArgument(complete.Files)
	complete.RegisterFlag(cmd, "profile", complete.Profiles(env, ""))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	switch {
	case o.duration < 0:
		return fmt.Errorf("--for: Invalid value: %v: must be greater than or equal to 0", o.duration)
	case o.pods < 0:
		return fmt.Errorf("--pods: Invalid value: %d: must be greater than or equal to 0", o.pods)
	}
	if o.profileOut == "" {
		o.profileOut = o.file + ".profile.yaml"
	}
	if sameFile(o.file, o.profileOut) {
		return fmt.Errorf("--profile-out: Invalid value: %q: must be another file than that of the log", o.profileOut)
	}
	if o.orderFile != "" {
		if o.nodeOrder, err = readOrder(o.orderFile); err != nil {
			return fmt.Errorf("--node-order: %w", err)
		}
	}
	if o.cluster, err = o.Open(ctx); err != nil {
		return err
	}
	profile, err := o.selectProfile(ctx)
	if err != nil {
		return err
	}
	// Both are opened before recording, so that an error is not reported at the end.
	profileOut, err := replace(o.profileOut)
	if err != nil {
		return err
	}
	defer func() { err = profileOut.finish(err) }()
	out, err := replace(o.file)
	if err != nil {
		return err
	}
	defer func() { err = out.finish(err) }()
	if err := writeProfile(profileOut, profile); err != nil {
		return err
	}
	h, err := o.watch(ctx, profile)
	if err != nil {
		return err
	}
	r, err := h.buildLog()
	if err != nil {
		return err
	}
	return o.writeLog(out, profile, h, r)
}

// selectProfile returns the profile to record.
func (o *options) selectProfile(ctx context.Context) (*state.Profile, error) {
	if o.profile == "" {
		all, err := o.cluster.Profiles(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(all) != 1:
			return nil, fmt.Errorf("--profile: Required value: there are %d SchedulingProfiles", len(all))
		}
		o.profile = all[0].Name
	}
	return state.Reader{Cluster: o.cluster, Note: o.note}.Running(ctx, o.profile, "--profile")
}

func (o *options) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// sources returns the kinds that are listed and watched, nodes and pods first: the log needs
// both.
func (o *options) sources() []*source {
	all := []*source{
		{ReadableKind: state.ReadableKind{List: &v1.NodeList{}, Name: "nodes"}},
		{ReadableKind: state.ReadableKind{List: &v1.PodList{}, Name: "pods"}, options: client.ListOptions{FieldSelector: state.NotEnded.Selector}},
	}
	for _, kind := range state.Readable {
		all = append(all, &source{ReadableKind: kind})
	}
	for _, s := range all {
		s.client = o.cluster.Client
	}
	return all
}

// watch collects changes until the recording ends.
func (o *options) watch(ctx context.Context, p *state.Profile) (*history, error) {
	h := newHistory(p.Name, p.Hash)
	h.nodeOrder = o.nodeOrder
	// Changes that arrive after ^C belong to decisions made before.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	events := make(chan watchEvent, 1000)
	for _, s := range o.sources() {
		err := s.list(ctx, h.addInitial)
		switch {
		case err != nil && s.IfUnreadable != "" && apierrors.IsForbidden(err):
			o.note("you may not list %s: %s", s.Name, s.IfUnreadable)
			o.gaps = append(o.gaps, s.Name)
			continue
		case err != nil && s.IfUnreadable != "" && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
			continue // an older API server does not serve it
		case err != nil:
			return nil, fmt.Errorf("%s: the log needs them: %w", s.Name, cluster.UserError(err))
		}
		switch s.List.(type) {
		case *v1.PodList:
			h.podsVersion = s.listVersion()
		case *v1.NodeList: // Berth may have observed one that is deleted
			h.nodesVersion = max(h.nodesVersion, s.listVersion())
		}
		go s.watchAll(watching, events)
	}
	fmt.Fprintf(o.ErrOut, "Recording profile %s: %s, %s.\n", p.Name, show.Count(len(h.nodes), "node"), show.Count(len(h.pods), "pod"))
	o.collect(ctx, h, events)
	return h, nil
}

// collect takes changes until the recording ends, and then those that earlier decisions had
// observed. What is interrupted then is a gap.
func (o *options) collect(ctx context.Context, h *history, events <-chan watchEvent) {
	o.interrupted = map[*source]bool{}
	o.collectAll(ctx, h, events)
	if len(o.interrupted) > 0 {
		o.gaps = append(o.gaps, "watch")
		o.note("the recording ended early: %v", o.interruption)
	}
}

func (o *options) collectAll(ctx context.Context, h *history, events <-chan watchEvent) {
	var end <-chan time.Time
	if o.duration > 0 {
		end = time.After(o.duration)
	}
	for decisions := 0; o.pods == 0 || decisions < o.pods; {
		select {
		case e := <-events:
			isDecision, ended := o.receive(h, e)
			if ended {
				return
			}
			if isDecision {
				decisions++
			}
			continue
		case <-end:
		case <-ctx.Done():
		}
		break
	}
	minimum, maximum := time.After(minDrain), time.After(maxDrain)
	for drained := false; !drained || !h.complete() || len(o.interrupted) > 0; {
		select {
		case e := <-events:
			if _, ended := o.receive(h, e); ended {
				return
			}
		case <-minimum:
			drained = true
		case <-maximum:
			return
		}
	}
}

// receive takes an event. It reports whether that is a decision of the profile, and whether the
// recording ends, since changes are lost.
func (o *options) receive(h *history, e watchEvent) (isDecision, ended bool) {
	switch {
	case e.source == nil:
		return h.addChange(e.object, e.deleted), false
	case e.err == nil:
		delete(o.interrupted, e.source)
		return false, false
	}
	if len(o.interrupted) == 0 && !e.lost {
		fmt.Fprintf(o.ErrOut, "The recording is interrupted, and goes on when it can: %v\n", e.err)
	}
	o.interrupted[e.source], o.interruption = true, e.err
	return false, e.lost
}

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "record", Arguments: "LOG.jsonl [--profile NAME] [--for DURATION] [--pods N] [--node-order FILE] [--profile-out FILE]",
	Short: "Record decisions so that they can be replayed",
	Long: `Lists and then watches the objects that schedulers read, and writes a log: the initial
state, and then each change and each decision of the profile, in the order in which Berth
observed them. It also writes the running profile, with its arguments inline. A replay
needs these two files and no cluster:

  go run ./test/replay --profile LOG.jsonl.profile.yaml LOG.jsonl

The order is read from the annotation berth.dev/decision. It has the number of the
attempt, the node at which the iteration over nodes started, and the resource versions of
nodes and pods that Berth had observed. Only the placement is recorded, and not replayed,
of pods that another profile, generation or scheduler bound, that have no annotation, or
whose decision was made before the first one of the log.

The log does not contain what is not visible from outside: failed attempts (except for the
node at which the next one starts), resources that were reserved for a pod that was not
bound in the end, and a nomination before it is in the status of the pod. The order in
which Berth iterates over nodes is inferred with the help of a checksum. If no likely order
has that checksum, nothing is recorded: set --node-order to the output of
/debug/berth/order of the leader. A note names each kind that may not be read, and what
that means, and the extenders that were called: a replay does not call them. Commands, arguments, environment variables and probes of containers are left
out, since no decision depends on them.

record ends after --for, after --pods, or with ^C, and then writes the log. While the API
server cannot be reached, it waits; it ends when changes are lost meanwhile. It is an error
if no decision can be replayed; then there is no log. When another leader takes over, the
log ends with the last decision of the previous one.`,
	Permissions: append([]verb.Permission{
		{Verbs: []string{"list", "watch"}, Resource: "nodes"},
		{Verbs: []string{"list", "watch"}, Resource: "pods"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for the running revision"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "without a stored revision"},
		{Verbs: []string{"list", "watch"}, Resource: "namespaces", Purpose: "for namespaceSelectors"},
		{Verbs: []string{"list", "watch"}, Resource: "services", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Resource: "replicationcontrollers", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Group: "apps", Resource: "replicasets", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Group: "apps", Resource: "statefulsets", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Group: "policy", Resource: "poddisruptionbudgets", Purpose: "for preemption"},
	}, slices.Concat(state.StoragePermissions("for pods with volumes", "list", "watch"), state.DevicePermissions("for pods with devices", "list", "watch"))...),
	Examples: []verb.Example{
		{Description: "Record ten minutes", Command: "kubectl berth record day.jsonl --for 10m"},
		{Description: "Record 500 decisions of one profile", Command: "kubectl berth record batch.jsonl --profile batch --pods 500"},
	},
	OnSuccess: "the log is written", OnFindings: "the log is written, but ends early or lacks something that decisions depend on, as the notes say",
}

// writeProfile writes the running profile with its arguments inline.
func writeProfile(out io.Writer, p *state.Profile) error {
	whole, err := compile.SelfContained(p.Source, p.Configs)
	if err != nil {
		return fmt.Errorf("SchedulingProfile %s: %w", p.Name, err)
	}
	text, err := yaml.JSONToYAML(whole)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// writeLog writes the log and prints a summary.
func (o *options) writeLog(out io.Writer, p *state.Profile, h *history, r *recording) error {
	if r.replayed == 0 {
		return fmt.Errorf("profile %s made no decision that can be replayed: no log is written%s", p.Name, gapsSuffix(r.gaps))
	}
	if err := log.WriteAll(out, r.ops); err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	if r.notReplayed > 0 {
		o.note("%s not replayed, only the placement is recorded: of another profile or generation, or in progress when recording started", show.Count(r.notReplayed, "decision"))
	}
	o.checkExtenders(p, r)
	o.notes = append(o.notes, r.gaps...)
	for _, note := range o.notes {
		fmt.Fprintln(o.ErrOut, show.Wrap("note: "+note, "", "  "))
	}
	_, err := fmt.Fprintf(o.Out, "%s of profile %s, hash %s, in %s.\nReplay with: go run ./test/replay --profile %s %s\n",
		show.Count(r.replayed, "decision"), p.Name, h.hash, show.Count(len(r.ops), "line"), o.profileOut, o.file)
	if err == nil && len(o.gaps)+len(r.gaps) > 0 {
		return verb.ErrFindings
	}
	return err
}

// checkExtenders notes the extenders that Berth called for a decision of the log: a replay has
// only the plugins.
func (o *options) checkExtenders(p *state.Profile, r *recording) {
	tried := func(yield func(*v1.Pod) bool) {
		for _, op := range r.ops {
			if op.Kind == log.Schedule && !yield(op.Object.(*v1.Pod)) {
				return
			}
		}
	}
	if called := p.InterestedExtenders(tried); len(called) > 0 {
		o.gaps = append(o.gaps, "extenders")
		o.note("extenders are not replayed: those that Berth called (%s) may have rejected nodes and changed scores, so that a replay decides differently", strings.Join(called, ", "))
	}
}

// gapsSuffix formats what the log lacks for the end of a message.
func gapsSuffix(faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	return "; " + strings.Join(faults, "; ")
}
