// Package plugin runs verbs of the kubectl plugin against a cluster that a test
// made up, and compares what they print with golden files.
package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Now is when all tests of the plugin take place.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Stage is a cluster, and somebody who asks it.
type TestEnv struct {
	t testing.TB
	*cluster.Cluster
	// In is what standard input holds.
	In string
	// Fail, where it is set, is asked before each call: an error is the API
	// server's answer. It gets the API's verb, and the object or list.
	Fail func(verb string, object any) error
	// May says what the user may do; nil allows all.
	Allow func(authorizationv1.ResourceAttributes) bool
	// Kubernetes is the API server's version.
	ServerVersion string
	// watched is told of each watch that has begun: the fake forgets what
	// happened before it.
	watched chan struct{}
}

// New returns a stage with these objects in namespace default.
func New(t testing.TB, objects ...client.Object) *TestEnv {
	s := &TestEnv{t: t, ServerVersion: "v1.37.1", watched: make(chan struct{}, 1)}
	built := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Pod{}, "spec.schedulerName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.SchedulerName} }).
		WithInterceptorFuncs(s.interceptors()).Build()
	s.Cluster = &cluster.Cluster{
		Client: built, Namespace: "default", BerthNamespace: cluster.DefaultBerthNamespace,
		Version: func(context.Context) (*version.Info, error) { return &version.Info{GitVersion: s.ServerVersion}, nil },
	}
	return s
}

func (s *TestEnv) failure(verb string, object any) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(verb, object)
}

func (s *TestEnv) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := s.failure("get", object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := s.failure("list", list); err != nil {
				return err
			}
			if pods, ok := list.(*corev1.PodList); ok {
				return listPodsByPhase(ctx, c, pods, options)
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := s.failure("create", object); err != nil {
				return err
			}
			if review, ok := object.(*authorizationv1.SelfSubjectAccessReview); ok {
				review.Status.Allowed = s.Allow == nil || s.Allow(*review.Spec.ResourceAttributes)
				return nil
			}
			return c.Create(ctx, object, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, options...)
			s.watched <- struct{}{}
			return w, err
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			asked := &client.PatchOptions{}
			asked.ApplyOptions(options)
			if len(asked.DryRun) == 0 {
				return c.Patch(ctx, object, patch, options...)
			}
			// The fake returns the object as it was; an API server, as it would be.
			before := object.DeepCopyObject().(client.Object)
			if err := c.Patch(ctx, object, patch); err != nil {
				return err
			}
			before.SetResourceVersion(object.GetResourceVersion())
			return c.Update(ctx, before)
		},
	}
}

// Run runs a verb, and returns what a terminal would show: the command, what it
// printed, what it said on standard error, and its exit code.
func (s *TestEnv) Run(of func(verb.Env) *cobra.Command, args ...string) string {
	var out, said bytes.Buffer
	err := s.execute(s.t.Context(), of, &out, &said, args)
	text := out.String()
	if said.Len() > 0 {
		text += "--- standard error\n" + said.String()
	}
	return fmt.Sprintf("%sexit %d\n", text, verb.ExitCode(err))
}

func (s *TestEnv) execute(ctx context.Context, of func(verb.Env) *cobra.Command, out, said io.Writer, args []string) error {
	cmd := of(verb.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(s.In), Out: out, ErrOut: said},
		Open:      func() (*cluster.Cluster, error) { return s.Cluster, nil },
		Now:       func() time.Time { return Now },
	})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{}, args...)) // cobra takes nil for the test's own
	cmd.SetOut(out)
	cmd.SetErr(said)
	err := cmd.ExecuteContext(ctx)
	if verb.ExitCode(err) == verb.ExitError {
		show.Error(said, err)
	}
	return err
}

// Watch runs a verb until the test ends and, once it watches, returns what waits until it has
// printed a text, and returns all that it has printed.
func (s *TestEnv) Watch(of func(verb.Env) *cobra.Command, args ...string) (await func(text string) string) {
	var out syncBuffer
	ctx, cancel := context.WithCancel(context.Background())
	done := runAsync(func() error { return s.execute(ctx, of, &out, &out, args) })
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("the watch ended with %v", err)
		}
	})
	select {
	case <-s.watched:
	case <-time.After(10 * time.Second):
		s.t.Fatalf("nothing is watched:\n%s", out.String())
	}
	return func(text string) string {
		s.t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if shown := out.String(); strings.Contains(shown, text) {
				return shown
			} else if time.Now().After(deadline) {
				s.t.Fatalf("%q was not printed:\n%s", text, shown)
			}
		}
	}
}

// listPods lists those that have not ended where that is asked, for which the
// fake has no words.
func listPodsByPhase(ctx context.Context, c client.WithWatch, list *corev1.PodList, options []client.ListOption) error {
	asked := &client.ListOptions{}
	asked.ApplyOptions(options)
	if asked.FieldSelector == nil || !strings.Contains(asked.FieldSelector.String(), "status.phase!=") {
		return c.List(ctx, list, options...)
	}
	asked.FieldSelector = nil
	if err := c.List(ctx, list, asked); err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	return nil
}

func runAsync(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// screen is a buffer that one goroutine writes and another reads.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (s *syncBuffer) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(text)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}
