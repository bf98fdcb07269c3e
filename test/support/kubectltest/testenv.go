// Package kubectltest runs verbs of the kubectl plugin on a fake cluster, and compares their
// output with golden files.
package kubectltest

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

// Now is the current time in all tests of the plugin.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestEnv is a fake cluster with a user.
type TestEnv struct {
	t testing.TB
	*cluster.Cluster
	// In is the content of standard input.
	In string
	// Fail, if not nil, is called before each request with the verb of the API and the object or
	// list. An error is the response of the API server.
	Fail func(verb string, object any) error
	// Allow reports what the user is allowed to do; nil allows everything.
	Allow func(authorizationv1.ResourceAttributes) bool
	// ServerVersion is the version of the API server.
	ServerVersion string
	// watched receives a value when a watch has started: the fake client does not replay earlier
	// events.
	watched chan struct{}
}

// New returns a fake cluster with these objects.
func New(t testing.TB, objects ...client.Object) *TestEnv {
	s := &TestEnv{t: t, ServerVersion: "v1.37.1", watched: make(chan struct{}, 1)}
	built := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Pod{}, "spec.schedulerName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.SchedulerName} }).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }).
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
			select {
			case s.watched <- struct{}{}:
			default: // a verb that watches several kinds
			}
			return w, err
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := s.failure("patch", object); err != nil {
				return err
			}
			asked := &client.PatchOptions{}
			asked.ApplyOptions(options)
			if len(asked.DryRun) == 0 {
				return c.Patch(ctx, object, patch, options...)
			}
			// The fake client returns the object before the patch; an API server, the object after it.
			before := object.DeepCopyObject().(client.Object)
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), before); err != nil {
				return err
			}
			if err := c.Patch(ctx, object, patch); err != nil {
				return err
			}
			before.SetResourceVersion(object.GetResourceVersion())
			return c.Update(ctx, before)
		},
	}
}

// Run runs a verb and returns what a terminal would show: standard output, standard error
// and the exit code.
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
		Open:      func(context.Context) (*cluster.Cluster, error) { return s.Cluster, nil },
		Now:       func() time.Time { return Now },
	})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{}, args...)) // with nil, cobra would use the arguments of the test
	cmd.SetOut(out)
	cmd.SetErr(said)
	err := cmd.ExecuteContext(ctx)
	if verb.ExitCode(err) == verb.ExitError {
		show.Error(said, err)
	}
	return err
}

// Watch runs a verb until the test ends. It returns, once a watch has started, a function
// that waits until a text is printed and returns everything that was printed.
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

// listPodsByPhase lists pods that have not ended if the selector says so: the fake client
// does not support that field selector.
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

// syncBuffer is a buffer that one goroutine writes and another reads.
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
