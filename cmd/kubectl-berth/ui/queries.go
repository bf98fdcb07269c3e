package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/explain"
	"github.com/berthdev/berth/cmd/kubectl-berth/try"
	"github.com/berthdev/berth/cmd/kubectl-berth/version"
)

// Session says which cluster the page shows.
type Session struct {
	// Version is the version of the plugin, Kubernetes that of the API server; empty if it does
	// not answer.
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	// Context is the context of the kubeconfig, Server the URL of the API server.
	Context string `json:"context"`
	Server  string `json:"server"`
	// Namespace is the namespace of -n or of the context.
	Namespace      string      `json:"namespace"`
	BerthNamespace string      `json:"berthNamespace"`
	Started        metav1.Time `json:"started"`
}

// session answers GET /api/session.
func (s *server) session(r *http.Request) (any, error) {
	c := s.cluster
	session := Session{
		Version: version.Plugin, Context: c.Context, Server: c.Server, Namespace: c.Namespace, BerthNamespace: c.BerthNamespace,
		Started: metav1.NewTime(s.started),
	}
	// The notes of the stream say that the API server does not answer.
	if info, err := c.Version(r.Context()); err == nil {
		session.Kubernetes = info.GitVersion
	}
	return session, nil
}

// PodAnswer explains a pod.
type PodAnswer struct {
	Explanation explain.Explanation `json:"explanation"`
	// Text is what `kubectl berth explain` prints.
	Text   string   `json:"text"`
	Events []Event  `json:"events"`
	Notes  []string `json:"notes"`
}

// Event is an event of a pod.
type Event struct {
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Count   int32       `json:"count"`
	Last    metav1.Time `json:"last"`
	From    string      `json:"from"`
}

// pod answers GET /api/pods/{namespace}/{name}.
func (s *server) pod(r *http.Request) (any, error) {
	name, err := podName(r)
	if err != nil {
		return nil, err
	}
	explained, err := explain.Query(r.Context(), s.env, s.cluster, name)
	if err != nil {
		return nil, podError(name, err)
	}
	pod := PodAnswer{Explanation: explained.Explanation, Text: explained.Text, Notes: append([]string{}, explained.Notes...)}
	if pod.Events, err = s.events(r.Context(), explained.Pod); err != nil {
		pod.Notes = append(pod.Notes, "The events of the pod cannot be listed: "+err.Error())
	}
	return pod, nil
}

// podName returns the pod that a path names.
func podName(r *http.Request) (client.ObjectKey, error) {
	name := client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if len(validation.IsDNS1123Label(name.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(name.Name)) > 0 {
		return name, &apiError{http.StatusNotFound, fmt.Sprintf("No pod can have the name %q in a namespace %q.", name.Name, name.Namespace)}
	}
	return name, nil
}

// podError returns the error for a pod that cannot be read or evaluated.
func podError(name client.ObjectKey, err error) error {
	if apierrors.IsNotFound(err) {
		return &apiError{http.StatusNotFound, fmt.Sprintf("There is no pod %s.", name)}
	}
	return err
}

// maxEvents is how many events of a pod are shown.
const maxEvents = 50

// events returns the events of a pod, the newest first.
func (s *server) events(ctx context.Context, pod *corev1.Pod) ([]Event, error) {
	events := []Event{}
	list := &corev1.EventList{}
	err := s.cluster.Client.List(ctx, list, client.InNamespace(pod.Namespace), client.Limit(pageSize),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID))})
	if err != nil {
		return events, err
	}
	for i := range list.Items {
		events = append(events, eventOf(&list.Items[i]))
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.Last.Compare(a.Last.Time) })
	return events[:min(len(events), maxEvents)], nil
}

// eventOf returns an event. Components that use events.k8s.io write other fields than those
// that use the core group.
func eventOf(e *corev1.Event) Event {
	event := Event{Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(1, e.Count), Last: e.LastTimestamp, From: e.ReportingController}
	if event.From == "" {
		event.From = e.Source.Component
	}
	switch {
	case e.Series != nil:
		event.Count, event.Last = e.Series.Count, metav1.NewTime(e.Series.LastObservedTime.Time)
	case event.Last.IsZero() && !e.EventTime.IsZero():
		event.Last = metav1.NewTime(e.EventTime.Time)
	case event.Last.IsZero():
		event.Last = e.CreationTimestamp
	}
	return event
}

// matrix answers GET /api/pods/{namespace}/{name}/matrix.
func (s *server) matrix(r *http.Request) (any, error) {
	name, err := podName(r)
	if err != nil {
		return nil, err
	}
	m, err := explain.EvaluateMatrix(r.Context(), s.env, s.cluster, name)
	if err != nil {
		return nil, podError(name, err)
	}
	return m, nil
}

// try answers POST /api/try.
func (s *server) try(r *http.Request) (any, error) {
	parameters := r.URL.Query()
	request := try.Request{Manifest: r.Body, Profile: parameters.Get("profile"), WithoutNodes: parameters["without-node"]}
	if text := parameters.Get("replicas"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, &apiError{http.StatusBadRequest, fmt.Sprintf("replicas: Invalid value: %q: must be a number.", text)}
		}
		request.Replicas = n
	}
	result, err := try.Evaluate(r.Context(), s.env, s.cluster, request)
	if err != nil {
		return nil, err
	}
	return result, nil
}
