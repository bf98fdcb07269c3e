package record

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/eventhandlers"
)

// rewatchDelay is the time between the end of a watch and the next one, pageSize how many
// objects are listed at a time.
const (
	rewatchDelay = time.Second
	pageSize     = 500
)

// watchEvent is a change, or what became of a watch.
type watchEvent struct {
	object  state.Object
	deleted bool
	// source is the watch that was interrupted by err, or that goes on if err is nil; nil for a
	// change. lost: it cannot go on, since changes are lost.
	source *source
	err    error
	lost   bool
}

// source lists and then watches one kind.
type source struct {
	state.ReadableKind
	client  client.WithWatch
	options client.ListOptions
	version string
	// interrupted: the last watch ended with an error.
	interrupted bool
}

var trim = eventhandlers.Trim(false)

// trimObject removes the fields that no decision depends on.
func trimObject(o runtime.Object) state.Object {
	if _, err := trim(o); err != nil {
		return nil
	}
	object, _ := o.(state.Object)
	return object
}

// list calls use with every object, and stores the resource version of the list.
func (s *source) list(ctx context.Context, use func(state.Object)) error {
	options := s.options
	options.Limit = pageSize
	for {
		list := s.List.DeepCopyObject().(client.ObjectList)
		if err := s.client.List(ctx, list, &options); err != nil {
			return err
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error { use(trimObject(o)); return nil }); err != nil {
			return err
		}
		s.version = list.GetResourceVersion()
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// listVersion returns the resource version of the list.
func (s *source) listVersion() uint64 {
	n, _ := strconv.ParseUint(s.version, 10, 64)
	return n
}

// watchAll sends all changes after the list, until ctx ends or changes are lost.
func (s *source) watchAll(ctx context.Context, to chan<- watchEvent) {
	send := func(e watchEvent) {
		select {
		case to <- e:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		if err := s.watch(ctx, send); err != nil && ctx.Err() == nil {
			s.interrupted = true
			lost := cannotGoOn(err)
			send(watchEvent{source: s, err: fmt.Errorf("watching %s: %w", s.Name, cluster.UserError(err)), lost: lost})
			if lost {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchDelay):
		}
	}
}

// cannotGoOn reports whether a watch cannot go on where it ended with an error: the API server has
// forgotten the version, or what the user may watch has changed. After other errors, it may be
// restarting.
func cannotGoOn(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// watch sends changes until the API server ends the watch.
func (s *source) watch(ctx context.Context, send func(watchEvent)) error {
	options := s.options
	options.Raw = &metav1.ListOptions{ResourceVersion: s.version, AllowWatchBookmarks: true}
	w, err := s.client.Watch(ctx, s.List.DeepCopyObject().(client.ObjectList), &options)
	if err != nil {
		return err
	}
	defer w.Stop()
	if s.interrupted {
		s.interrupted = false
		send(watchEvent{source: s})
	}
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		object := trimObject(e.Object)
		if object == nil {
			continue
		}
		s.version = object.GetResourceVersion()
		if e.Type != watch.Bookmark {
			send(watchEvent{object: object, deleted: e.Type == watch.Deleted})
		}
	}
	return nil
}
