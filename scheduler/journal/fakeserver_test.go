package journal

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

var (
	configMaps = schema.GroupResource{Resource: "configmaps"}
	errLost    = errors.New("the connection was lost")
	forbidden  = apierrors.NewForbidden(configMaps, Name, errors.New("no rule"))
)

// fakeServer is an API server that holds one ConfigMap: each write makes a new resource
// version, and a write that names another version than the stored one is a conflict.
type fakeServer struct {
	corev1.ConfigMapInterface
	mu      sync.Mutex
	stored  *v1.ConfigMap
	version int
	// calls are the verbs of the requests so far.
	calls []string
	// outcomes are those of the next writes; without one a write succeeds.
	outcomes []outcome
	// getErr, unless nil, is the error of every read.
	getErr error
	// lateWrites are writes that were not applied yet.
	lateWrites []func() error
	// block, unless nil, blocks writes until it is closed.
	block chan struct{}
}

// outcome is what happens to a write.
type outcome struct {
	err error
	// applied says that a write that fails is applied all the same, late that
	// applyLateWrites applies it.
	applied, late bool
}

func (s *fakeServer) Get(context.Context, string, metav1.GetOptions) (*v1.ConfigMap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "get")
	if s.getErr != nil {
		return nil, s.getErr
	}
	if s.stored == nil {
		return nil, apierrors.NewNotFound(configMaps, Name)
	}
	return s.stored.DeepCopy(), nil
}

func (s *fakeServer) Create(_ context.Context, object *v1.ConfigMap, _ metav1.CreateOptions) (*v1.ConfigMap, error) {
	return s.write("create", object)
}

func (s *fakeServer) Update(_ context.Context, object *v1.ConfigMap, _ metav1.UpdateOptions) (*v1.ConfigMap, error) {
	return s.write("update", object)
}

func (s *fakeServer) write(verb string, object *v1.ConfigMap) (*v1.ConfigMap, error) {
	s.mu.Lock()
	s.calls = append(s.calls, verb)
	var o outcome
	if len(s.outcomes) > 0 {
		o, s.outcomes = s.outcomes[0], s.outcomes[1:]
	}
	block := s.block
	s.mu.Unlock()
	if block != nil {
		<-block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.late {
		s.lateWrites = append(s.lateWrites, func() error { _, err := s.applyWrite(verb, object); return err })
	}
	if o.err != nil {
		if o.applied {
			_, _ = s.applyWrite(verb, object)
		}
		return nil, o.err
	}
	return s.applyWrite(verb, object)
}

// applyWrite checks and applies a write. The caller holds s.mu.
func (s *fakeServer) applyWrite(verb string, object *v1.ConfigMap) (*v1.ConfigMap, error) {
	switch {
	case verb == "create" && s.stored != nil:
		return nil, apierrors.NewAlreadyExists(configMaps, Name)
	case verb == "update" && s.stored == nil:
		return nil, apierrors.NewNotFound(configMaps, Name)
	case verb == "update" && object.ResourceVersion != s.stored.ResourceVersion:
		return nil, apierrors.NewConflict(configMaps, Name, errors.New("another version"))
	}
	s.version++
	s.stored = object.DeepCopy()
	s.stored.ResourceVersion = strconv.Itoa(s.version)
	return s.stored.DeepCopy(), nil
}

// applyLateWrites applies the late writes, and returns the error of the last one.
func (s *fakeServer) applyLateWrites() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, write := range s.lateWrites {
		err = write()
	}
	s.lateWrites = nil
	return err
}

func (s *fakeServer) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = nil
}

// storedContent returns what the stored journal says.
func (s *fakeServer) storedContent(t *testing.T) content {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil {
		t.Fatal("no journal is stored")
	}
	c, err := fromConfigMap(s.stored)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// storedPods returns the pods in the stored journal, sorted.
func (s *fakeServer) storedPods(t *testing.T) []types.UID {
	t.Helper()
	return slices.Sorted(keys(s.storedContent(t).pods))
}

func (s *fakeServer) writes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if call != "get" {
			n++
		}
	}
	return n
}

func (s *fakeServer) reads() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if call == "get" {
			n++
		}
	}
	return n
}

func keys(set sets.Set[types.UID]) func(yield func(types.UID) bool) {
	return func(yield func(types.UID) bool) {
		for uid := range set {
			if !yield(uid) {
				return
			}
		}
	}
}

// newJournal returns the Journal of another process.
func newJournal(s *fakeServer, holder string) *Journal {
	return New(Options{
		Client: s, Holder: holder, Clock: clock.RealClock{}, Go: func(work func()) { go work() }, Log: logr.Discard(),
		Wait: func(ctx context.Context, until <-chan struct{}) error {
			select {
			case <-until:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
}

// elected is the Leadership of an epoch under a Lease; epoch 0 created the Lease.
func elected(epoch int64) Leadership {
	return Leadership{Elected: true, Epoch: epoch, First: epoch == 0}
}

func withLease(uid types.UID, l Leadership) Leadership {
	l.Lease = uid
	return l
}

// leader returns the Journal of a process that has taken over.
func leader(t *testing.T, s *fakeServer, holder string, l Leadership) *Journal {
	t.Helper()
	j := newJournal(s, holder)
	if _, ok := j.TakeOver(t.Context(), l); !ok {
		t.Fatal("the journal was not taken over")
	}
	return j
}

// withFakeTime runs a test in virtual time.
func withFakeTime(t *testing.T, test func(t *testing.T, s *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &fakeServer{})
		time.Sleep(time.Minute) // the writer ends when there is nothing to write
	})
}
