package ui

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berthdev/berth/test/support/fixture"
)

// maxBackoff is longer than the reflector waits before it tries again.
const maxBackoff = 2 * time.Minute

// notesOf returns the notes of the last message that has some.
func notesOf(t *testing.T, messages []map[string]any) []string {
	t.Helper()
	var last any
	for _, m := range messages {
		if notes, has := m["notes"]; has {
			last = notes
		}
	}
	if last == nil {
		t.Fatalf("no message has notes: %v", typesOf(messages))
	}
	notes := []string{}
	for _, note := range last.([]any) {
		notes = append(notes, note.(string))
	}
	return notes
}

func checkNotes(t *testing.T, messages []map[string]any, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), notesOf(t, messages)); diff != "" {
		t.Errorf("notes (-want,+got):\n%s", diff)
	}
}

func TestATenantSeesOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t, append(streamObjects(), fixture.Pod("shop/db").Obj())...)
		e.client.reject(func(verb, kind, namespace string) error {
			if namespace == "default" {
				return nil
			}
			return forbidden(verb, kind, namespace)
		})
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		messages := p.take(t)
		checkTypes(t, messages, "snapshot", "synced")
		checkKeys(t, messages[0], map[string][]string{"pods": {"default/web"}, "decisions": {"default/web"}})
		checkNotes(t, messages,
			"You may not list schedulingprofiles.berth.dev: no profile is shown.",
			"You may not list nodes: the map is empty.",
			"You may not list resourceslices.resource.k8s.io: the devices of nodes are not counted.",
			"You may not list schedulingdecisions.berth.dev in all namespaces: those of namespace default are shown.",
			"You may not list pods in all namespaces: those of namespace default are shown.")
		e.create(fixture.Pod("shop/cache").Obj())
		checkTypes(t, p.take(t))
		e.create(fixture.Pod("default/cache").Obj())
		messages = p.take(t)
		checkTypes(t, messages, "delta")
		checkKeys(t, messages[0], map[string][]string{"pods": {"default/cache"}})

		// A role that is granted meanwhile.
		time.Sleep(deltaInterval)
		e.client.reject(nil)
		time.Sleep(maxBackoff)
		synctest.Wait()
		messages = p.take(t)
		checkNotes(t, messages,
			"You may not list schedulingdecisions.berth.dev in all namespaces: those of namespace default are shown.",
			"You may not list pods in all namespaces: those of namespace default are shown.")
		got := keysOfAll(messages)
		if len(got["nodes"]) == 0 || len(got["profiles"]) == 0 {
			t.Errorf("after the role was granted, %v are sent", got)
		}
	})
}

func TestAUserWithoutPermissionsSeesNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t, streamObjects()...)
		e.client.reject(forbidden)
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		messages := p.take(t)
		checkTypes(t, messages, "synced")
		checkNotes(t, messages,
			"You may not list schedulingprofiles.berth.dev: no profile is shown.",
			"You may not list nodes: the map is empty.",
			"You may not list resourceslices.resource.k8s.io: the devices of nodes are not counted.",
			"You may not list schedulingdecisions.berth.dev: reasons of pending pods are not shown.",
			"You may not list pods: no pod is shown.")
	})
}

func TestErrorsOfWatchesGiveNotesUntilTheyWork(t *testing.T) {
	of := func(kind string, err error) func(string, string, string) error {
		return func(_, requested, _ string) error {
			if requested == kind {
				return err
			}
			return nil
		}
	}
	onlyWatch := func(kind string, err error) func(string, string, string) error {
		return func(verb, requested, _ string) error {
			if requested == kind && verb == "watch" {
				return err
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		rejects func(verb, kind, namespace string) error
		want    string
	}{
		"a kind that is not served": {
			of("SchedulingProfile", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "berth.dev", Kind: "SchedulingProfile"}}),
			"The API server does not serve schedulingprofiles.berth.dev: no profile is shown.",
		},
		"a kind whose CRD was deleted": {
			of("SchedulingDecision", apierrors.NewNotFound(schema.GroupResource{Group: "berth.dev"}, "")),
			"The API server does not serve schedulingdecisions.berth.dev: reasons of pending pods are not shown.",
		},
		"an API server that fails": {
			of("Node", errors.New("etcdserver: leader changed")),
			"The watch of nodes is interrupted, and is tried again: etcdserver: leader changed.",
		},
		"no permission to watch": {
			onlyWatch("Pod", forbidden("watch", "Pod", "")),
			"You may not watch pods: they are listed now and then, and changes are shown late.",
		},
		"an API server that is overloaded": {
			onlyWatch("Pod", apierrors.NewTooManyRequestsError("later")),
			"The watch of pods is interrupted, and is tried again: Too many requests: later.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newTestEnv(t, streamObjects()...)
				e.client.reject(c.rejects)
				defer e.watchCluster()()
				p := newPage()
				defer e.openStream(p)()
				checkNotes(t, p.take(t), c.want)
				e.client.reject(nil)
				time.Sleep(maxBackoff)
				synctest.Wait()
				checkNotes(t, p.take(t))
				late := newPage()
				defer e.openStream(late)()
				messages := late.take(t)
				checkTypes(t, messages, "snapshot", "synced")
				checkKeys(t, messages[0], map[string][]string{"profiles": {"batch"}, "nodes": {"n1"}, "pods": {"default/web"}, "decisions": {"default/web"}})
			})
		})
	}
}

// discoveryMapper is a mapper that knows the kinds that were served when it was reset.
type discoveryMapper struct {
	meta.RESTMapper
	mu            sync.Mutex
	served, known bool
	resets        int
}

// Reset makes the mapper discover the kinds.
func (m *discoveryMapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = m.served
	m.resets++
}

// serve makes the API server serve the kinds of Berth. It returns how often the mapper was reset.
func (m *discoveryMapper) serve() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served = true
	return m.resets
}

// reject rejects requests for kinds of Berth that the mapper does not know.
func (m *discoveryMapper) reject(_, kind, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known || !strings.HasPrefix(kind, "Scheduling") {
		return nil
	}
	return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "berth.dev", Kind: kind}}
}

func TestAPageThatWasOpenedBeforeTheCRDsExistShowsTheirObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t, streamObjects()...)
		mapper := &discoveryMapper{RESTMapper: e.client.RESTMapper()}
		e.client.mapper = mapper
		e.client.reject(mapper.reject)
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		checkNotes(t, p.take(t),
			"The API server does not serve schedulingprofiles.berth.dev: no profile is shown.",
			"The API server does not serve schedulingdecisions.berth.dev: reasons of pending pods are not shown.")
		const without = 10 * time.Minute
		time.Sleep(without)
		if most, resets := int(without/rediscoverInterval)+1, mapper.serve(); resets > most {
			t.Errorf("the kinds were discovered %d times in %v, want at most %d times", resets, without, most)
		}
		time.Sleep(2 * maxBackoff)
		synctest.Wait()
		messages := p.take(t)
		checkNotes(t, messages)
		if diff := cmp.Diff(map[string][]string{"profiles": {"batch"}, "decisions": {"default/web"}}, keysOfAll(messages)); diff != "" {
			t.Errorf("(-want,+got):\n%s", diff)
		}
	})
}

func TestAWatchThatBreaksIsRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		status metav1.Status
		noted  bool
	}{
		"an error of the API server":              {apierrors.NewInternalError(errors.New("broken")).Status(), true},
		"a resource version that is too old":      {apierrors.NewResourceExpired("too old").Status(), false},
		"a resource version that is gone already": {apierrors.NewGone("gone").Status(), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newTestEnv(t, streamObjects()...)
				defer e.watchCluster()()
				p := newPage()
				defer e.openStream(p)()
				p.take(t)
				// While the watch is broken, a pod is created and another one is deleted.
				e.client.reject(func(verb, kind, _ string) error {
					if kind == "Pod" {
						return errors.New("connection lost")
					}
					return nil
				})
				e.client.fail("Pod", &c.status)
				synctest.Wait()
				time.Sleep(maxBackoff)
				e.create(fixture.Pod("default/new").Obj())
				e.remove(fixture.Pod("default/web").Obj())
				p.take(t)
				e.client.reject(nil)
				time.Sleep(maxBackoff)
				synctest.Wait()
				messages := p.take(t)
				checkNotes(t, messages)
				if diff := cmp.Diff(map[string][]string{"pods": {"default/new", "-default/web"}}, keysOfAll(messages)); diff != "" {
					t.Errorf("(-want,+got):\n%s", diff)
				}
			})
		})
		t.Run(name+", and a note", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newTestEnv(t, streamObjects()...)
				l := e.server.live
				s := &source{kind: kinds[1], live: l}
				s.convert(watchError(c.status))
				l.mu.Lock()
				defer l.mu.Unlock()
				if noted := strings.HasPrefix(strings.Join(l.allNotes(), "\n"), "The watch of nodes is interrupted"); noted != c.noted {
					t.Errorf("notes: %q", l.allNotes())
				}
			})
		})
	}
}

// watchError is the event for an error.
func watchError(status metav1.Status) watch.Event {
	return watch.Event{Type: watch.Error, Object: &status}
}

func TestTheMemoryOfAnExpensiveRequestIsReturned(t *testing.T) {
	e := newTestEnv(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := e.server.limited(func(*http.Request) (any, error) { return map[string]string{}, nil })(e.request(http.MethodGet, "/api/session", ""))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC {
		t.Error("the memory of the copy of the cluster is kept")
	}
}

func TestAnExpensiveRequestWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t)
		release := make(chan struct{})
		handler := e.server.guard.wrap(answer(e.server.limited(func(r *http.Request) (any, error) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return map[string]string{}, nil
		})))
		done := make(chan int)
		send := func() {
			w := newPage()
			handler.ServeHTTP(w, e.request(http.MethodGet, "/api/session", ""))
			done <- w.status
		}
		for range maxExpensive + 1 {
			go send()
		}
		synctest.Wait()
		time.Sleep(expensiveTimeout)
		if status := <-done; status != 503 {
			t.Errorf("the request that waits has status %d, want 503", status)
		}
		go send()
		synctest.Wait()
		close(release)
		for range maxExpensive + 1 {
			if status := <-done; status != 200 {
				t.Errorf("status %d, want 200", status)
			}
		}
	})
}
