// Package record is `kubectl berth record`: what a profile decides on a live
// cluster, written down so that it can be decided again without one.
package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// After the end, what was decided before it may still come: binds that are under
// way, and changes that Berth had heard of.
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
	// notes are what is to be known of the log, faults what it lacks that decides.
	notes, gaps []string
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		o.file = args[0]
		return o.run(cmd.Context())
	})
	flags := cmd.Flags()
	flags.StringVar(&o.profile, "profile", "", "the SchedulingProfile whose decisions are recorded; may be left out where there is one")
	flags.StringVar(&o.profileOut, "profile-out", "", "where the profile is written; LOG.jsonl.profile.yaml if left out")
	flags.StringVar(&o.orderFile, "node-order", "", "file with the order of the nodes, as /debug/berth/order of the manager says it; guessed, and checked, if left out")
	flags.DurationVar(&o.duration, "for", 0, "how long to record; 0: until --pods, or ^C")
	flags.IntVar(&o.pods, "pods", 0, "end after so many decisions of the profile; 0: do not count")
	cmd.ValidArgsFunction = complete.FirstArgument(complete.Files)
	complete.RegisterFlag(cmd, "profile", complete.Profiles(env, ""))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	switch {
	case o.duration < 0:
		return fmt.Errorf("--for: must be at least 0, is %v", o.duration)
	case o.pods < 0:
		return fmt.Errorf("--pods: must be at least 0, is %d", o.pods)
	}
	if o.profileOut == "" {
		o.profileOut = o.file + ".profile.yaml"
	}
	if o.orderFile != "" {
		if o.nodeOrder, err = readOrder(o.orderFile); err != nil {
			return fmt.Errorf("--node-order: %w", err)
		}
	}
	if o.cluster, err = o.Open(); err != nil {
		return err
	}
	profile, err := o.selectProfile(ctx)
	if err != nil {
		return err
	}
	out, err := os.Create(o.file) // that it may be written is known before the span
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil && !errors.Is(err, verb.ErrFindings) {
			_ = os.Remove(o.file) // half a log, or none, would be taken for one
		}
	}()
	if err := o.writeProfile(profile); err != nil {
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

// which is the profile that is recorded.
func (o *options) selectProfile(ctx context.Context) (*state.Profile, error) {
	if o.profile == "" {
		all, err := o.cluster.Profiles(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(all) != 1:
			return nil, fmt.Errorf("--profile: say which, there are %d SchedulingProfiles", len(all))
		}
		o.profile = all[0].Name
	}
	return state.Reader{Cluster: o.cluster, In: o.In, Note: o.note}.Running(ctx, o.profile, "--profile")
}

func (o *options) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// sources are what is listed and watched: nodes and pods first, without which there
// is no log.
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

// watch gathers what happens until the span is over.
func (o *options) watch(ctx context.Context, p *state.Profile) (*history, error) {
	h := newHistory(p.Name, p.Hash)
	h.nodeOrder = o.nodeOrder
	// What comes after ^C belongs to what came before.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	news := make(chan watchEvent, 1000)
	for _, s := range o.sources() {
		err := s.list(ctx, h.addInitial)
		switch {
		case err != nil && s.IfUnreadable != "" && apierrors.IsForbidden(err):
			o.note("you may not list %s: %s", s.Name, s.IfUnreadable)
			o.gaps = append(o.gaps, s.Name)
			continue
		case err != nil && s.IfUnreadable != "" && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
			continue // an older API server has none
		case err != nil:
			return nil, fmt.Errorf("%s: without them there is no log: %w", s.Name, cluster.UserError(err))
		}
		switch s.List.(type) {
		case *v1.PodList:
			h.podsVersion = s.listVersion()
		case *v1.NodeList: // Berth may have heard of one that is gone
			h.nodesVersion = max(h.nodesVersion, s.listVersion())
		}
		go s.watchAll(watching, news)
	}
	fmt.Fprintf(o.ErrOut, "Recording profile %s: %s, %s.\n", p.Name, show.Count(len(h.nodes), "node"), show.Count(len(h.pods), "pod"))
	return h, o.collect(ctx, h, news)
}

// gather takes news until the span is over, and then what was decided before.
func (o *options) collect(ctx context.Context, h *history, news <-chan watchEvent) error {
	var over <-chan time.Time
	if o.duration > 0 {
		over = time.After(o.duration)
	}
	for decisions := 0; o.pods == 0 || decisions < o.pods; {
		select {
		case t := <-news:
			if t.err != nil {
				return o.endEarly(t.err)
			}
			if h.addChange(t.object, t.deleted) {
				decisions++
			}
			continue
		case <-over:
		case <-ctx.Done():
		}
		break
	}
	quiet, late := time.After(minDrain), time.After(maxDrain)
	for settled := false; !settled || !h.complete(); {
		select {
		case t := <-news:
			if t.err != nil {
				return o.endEarly(t.err)
			}
			h.addChange(t.object, t.deleted)
		case <-quiet:
			settled = true
		case <-late:
			return nil
		}
	}
	return nil
}

// broken ends the record early, unless there is none without what is lost.
func (o *options) endEarly(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	o.gaps = append(o.gaps, "watch")
	o.note("the record ends early: %v", err)
	return nil
}
