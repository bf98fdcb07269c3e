package explainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// fakeServer is an API server that serves SchedulingDecisions only. It is an
// http.RoundTripper, so that it works in the virtual time of a synctest bubble.
type fakeServer struct {
	mu      sync.Mutex
	objects map[string]*v1alpha1.SchedulingDecision
	created int
	// perPage is how many objects a list returns at most, if not as many as are asked for.
	perPage int
	// log holds the requests, and times when writes came.
	log   []string
	times []time.Time
	// respond answers a request in place of the server, unless it returns nil; may be
	// nil. It may call carryOut to have the request carried out all the same.
	respond func(r *http.Request, carryOut func()) error
}

// RoundTrip implements http.RoundTripper.
func (s *fakeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/berth.dev/v1alpha1/")
	path = strings.TrimPrefix(strings.Replace(path, "/schedulingdecisions", "", 1), "namespaces/")
	s.log = append(s.log, r.Method+" "+path)
	if r.Method != http.MethodGet {
		s.times = append(s.times, time.Now())
	}
	w := httptest.NewRecorder()
	if s.respond != nil {
		if err := s.respond(r, func() { s.serve(httptest.NewRecorder(), r, path) }); err != nil {
			var status *apierrors.StatusError
			if !errors.As(err, &status) {
				return nil, err
			}
			replyError(w, status)
			return w.Result(), nil
		}
	}
	s.serve(w, r, path)
	return w.Result(), nil
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request, name string) {
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	resource := schema.GroupResource{Group: "berth.dev", Resource: schedulingDecisions}
	existing := s.objects[name]
	switch {
	case r.Method == http.MethodPost:
		object := &v1alpha1.SchedulingDecision{}
		must(json.Unmarshal(body, object))
		name += "/" + object.Name
		if s.objects[name] != nil {
			replyError(w, apierrors.NewAlreadyExists(resource, name))
			return
		}
		s.created++
		object.UID, object.CreationTimestamp = types.UID(fmt.Sprint("object-", s.created)), metav1.Now()
		s.objects[name] = object
		reply(w, object.ObjectMeta)
	case r.Method == http.MethodGet && name == schedulingDecisions:
		s.page(w, r.URL.Query(), r.Header.Get("Accept") == acceptMetadataList)
	case existing == nil:
		replyError(w, apierrors.NewNotFound(resource, name))
	case r.Method == http.MethodGet:
		reply(w, existing.ObjectMeta)
	case r.Method == http.MethodPatch:
		var patch [2]struct {
			Path  string
			Value json.RawMessage
		}
		must(json.Unmarshal(body, &patch))
		var owner int
		_, err := fmt.Sscanf(patch[0].Path, "/metadata/ownerReferences/%d/uid", &owner)
		must(err)
		if want := fmt.Sprintf("%q", existing.OwnerReferences[owner].UID); string(patch[0].Value) != want {
			replyError(w, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value failed", 0, false))
			return
		}
		existing.Status = v1alpha1.SchedulingDecisionStatus{}
		must(json.Unmarshal(patch[1].Value, &existing.Status))
		reply(w, existing.ObjectMeta)
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		must(json.Unmarshal(body, &options))
		if *options.Preconditions.UID != existing.UID {
			replyError(w, apierrors.NewConflict(resource, name, errors.New("the UID is another")))
			return
		}
		delete(s.objects, name)
		reply(w, existing.ObjectMeta)
	}
}

// page returns a page of objects; without their status if only metadata is asked for.
func (s *fakeServer) page(w http.ResponseWriter, query url.Values, metadata bool) {
	perPage := s.perPage
	if perPage == 0 {
		var err error
		perPage, err = strconv.Atoi(query.Get("limit"))
		must(err)
	}
	var names []string
	for name := range s.objects {
		if name > query.Get("continue") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list v1alpha1.SchedulingDecisionList
	if len(names) > perPage {
		names = names[:perPage]
		list.Continue = names[perPage-1]
	}
	for _, name := range names {
		object := *s.objects[name]
		if metadata {
			object.Status = v1alpha1.SchedulingDecisionStatus{}
		}
		list.Items = append(list.Items, object)
	}
	must(json.NewEncoder(w).Encode(list))
}

func reply(w http.ResponseWriter, m metav1.ObjectMeta) {
	w.Header().Set("Content-Type", "application/json")
	must(json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{ObjectMeta: m}))
}

// replyError responds as an API server does, which sends no Status for a path that it
// does not know.
func replyError(w http.ResponseWriter, err *apierrors.StatusError) {
	if apierrors.IsUnexpectedServerError(err) {
		http.Error(w, "404 page not found", int(err.ErrStatus.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if d := err.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(d.RetryAfterSeconds))
	}
	w.WriteHeader(int(err.ErrStatus.Code))
	status := err.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	must(json.NewEncoder(w).Encode(status))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// message returns an object's message and owner; empty when the object does not exist.
func (s *fakeServer) message(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[name]; o != nil {
		return fmt.Sprint(o.Status.Message, " of ", ownerOf(o))
	}
	return ""
}

// names returns the names of the objects that begin with prefix, sorted.
func (s *fakeServer) names(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.objects {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// lastChange returns the lastChange of an object.
func (s *fakeServer) lastChange(name string) metav1.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name].Status.LastChange
}

// remove deletes an object, as another client would.
func (s *fakeServer) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
}

// shortestSpan returns the shortest time in which there were n+1 writes.
func (s *fakeServer) shortestSpan(n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	shortest := idleInterval
	for i := n; i < len(s.times); i++ {
		shortest = min(shortest, s.times[i].Sub(s.times[i-n]))
	}
	return shortest
}

// takeRequests returns the log, and clears it.
func (s *fakeServer) takeRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log, s.times = nil, nil
	return log
}

// respondWith sets respond.
func (s *fakeServer) respondWith(f func(r *http.Request, carryOut func()) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respond = f
}

// addObject adds an object whose owner has the given UID, and that edits change.
func (s *fakeServer) addObject(name string, owner types.UID, edits ...func(*v1alpha1.SchedulingDecision)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created++
	object := &v1alpha1.SchedulingDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(fmt.Sprint("object-", s.created)), CreationTimestamp: metav1.NewTime(time.Now()),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: owner}},
	}}
	for _, edit := range edits {
		edit(object)
	}
	s.objects["shop/"+name] = object
}
