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

// pause is how long an API server is left alone that ended a watch, page how many
// objects it is asked for at once.
const (
	rewatchDelay = time.Second
	pageSize     = 500
)

// told is one thing that a watch told, or why it cannot go on.
type watchEvent struct {
	object  state.Object
	deleted bool
	err     error
}

// source is one kind that is listed and then watched.
type source struct {
	state.ReadableKind
	client  client.WithWatch
	options client.ListOptions
	version string
}

var trim = eventhandlers.Trim(false)

// trimmed leaves out what nobody reads to decide.
func trimObject(o runtime.Object) state.Object {
	if _, err := trim(o); err != nil {
		return nil
	}
	object, _ := o.(state.Object)
	return object
}

// list hands over what there is, and remembers its version.
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

// at is the version of the list.
func (s *source) listVersion() uint64 {
	n, _ := strconv.ParseUint(s.version, 10, 64)
	return n
}

// follow tells of all changes from the list on, until ctx ends.
func (s *source) watchAll(ctx context.Context, to chan<- watchEvent) {
	tell := func(t watchEvent) {
		select {
		case to <- t:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		if err := s.watch(ctx, tell); err != nil && ctx.Err() == nil {
			tell(watchEvent{err: fmt.Errorf("watching %s: %w", s.Name, cluster.UserError(err))})
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchDelay):
		}
	}
}

// watch tells of changes until the API server ends that. The error is one after
// which changes are lost.
func (s *source) watch(ctx context.Context, tell func(watchEvent)) error {
	options := s.options
	options.Raw = &metav1.ListOptions{ResourceVersion: s.version, AllowWatchBookmarks: true}
	w, err := s.client.Watch(ctx, s.List.DeepCopyObject().(client.ObjectList), &options)
	if err != nil {
		return err
	}
	defer w.Stop()
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
			tell(watchEvent{object: object, deleted: e.Type == watch.Deleted})
		}
	}
	return nil
}
