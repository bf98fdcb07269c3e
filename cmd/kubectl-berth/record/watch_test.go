package record

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/decision"
)

// brokenWatches is a client whose watches fail with errors, one after the other, and then go on;
// the last error stays if forGood. A watch that goes on from a version has the changes after it.
type brokenWatches struct {
	client.WithWatch
	errs    []error
	forGood bool
	changes []state.Object
	// inStream: the errors come as events of a watch.
	inStream bool
}

func (b *brokenWatches) Watch(_ context.Context, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	if len(b.errs) > 0 {
		err := b.errs[0]
		if !b.forGood || len(b.errs) > 1 {
			b.errs = b.errs[1:]
		}
		if status := (*apierrors.StatusError)(nil); b.inStream && errors.As(err, &status) {
			w.Error(&status.ErrStatus)
			w.Stop()
			return w, nil
		}
		return nil, err
	}
	from := (&client.ListOptions{}).ApplyOptions(opts).Raw.ResourceVersion
	for _, object := range b.changes {
		if object.GetResourceVersion() > from {
			w.Modify(object)
		}
	}
	w.Stop()
	b.changes = nil
	return w, nil
}

func TestARecordingGoesOnWhenTheAPIServerRestarts(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	unavailable := apierrors.NewServiceUnavailable("starting")
	expired := apierrors.NewResourceExpired("too old resource version")
	const replayed, interrupted = "apply b\napply a\napply old on a\nschedule p from 0", "The recording is interrupted"
	for name, c := range map[string]struct {
		client brokenWatches
		want   string
		gaps   []string
		// printed is a part of what is printed, or of the notes.
		printed string
	}{
		"connections are refused":              {brokenWatches{errs: []error{refused, refused}}, replayed, nil, interrupted},
		"it is overloaded, and then starts":    {brokenWatches{errs: []error{apierrors.NewTooManyRequestsError("later"), unavailable}}, replayed, nil, interrupted},
		"a watch ends with an error":           {brokenWatches{errs: []error{unavailable}, inStream: true}, replayed, nil, interrupted},
		"it has forgotten the version":         {brokenWatches{errs: []error{refused, expired}}, "", []string{"watch"}, "ended early: watching pods: too old"},
		"it says so in the watch":              {brokenWatches{errs: []error{expired}, inStream: true}, "", []string{"watch"}, "ended early: watching pods: too old"},
		"it is still away when recording ends": {brokenWatches{errs: []error{refused}, forGood: true}, "", []string{"watch"}, "ended early: watching pods: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				walk := decision.Walk{Seq: 1, Order: orderChecksum("b", "a"), Nodes: 11, Pods: 12}
				c.client.changes = []state.Object{pendingPod(21, "p"), boundPod(24, "p", "a", walk)}
				s := &source{ReadableKind: state.ReadableKind{List: &v1.PodList{}, Name: "pods"}, client: &c.client, version: "20"}
				var printed bytes.Buffer
				o := &options{Env: verb.Env{IOStreams: genericiooptions.IOStreams{ErrOut: &printed}}, duration: time.Minute}
				h, events := testHistory(), make(chan watchEvent)
				go s.watchAll(ctx, events)
				o.collect(ctx, h, events)
				r, err := h.buildLog()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, formatOps(r)); c.want != "" && diff != "" {
					t.Errorf("the log (-want,+got):\n%s", diff)
				}
				if diff := cmp.Diff(c.gaps, o.gaps); diff != "" {
					t.Errorf("gaps (-want,+got):\n%s", diff)
				}
				if said := printed.String() + strings.Join(o.notes, "\n"); strings.Count(said, c.printed) != 1 {
					t.Errorf("it says %q, want %q once", said, c.printed)
				}
			})
		})
	}
}
