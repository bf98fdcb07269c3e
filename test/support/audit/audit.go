// Package audit reads what an API server notes of the requests that it gets, and
// compares a user's with the rights that the user has.
package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// Explanations has the API server note each write of a SchedulingDecision
	// once, when it is answered, and nothing else.
	Explanations = head + `
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: berth.dev, resources: [schedulingdecisions]}]
- level: None
`
	head = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:`
)

// User is the policy under which each request of one user is noted.
func User(name string) (policy string) {
	return head + fmt.Sprintf(`
- level: Metadata
  users: [%q]
- level: None
`, name)
}

// Log is what an API server writes.
type Log struct{ file string }

// New writes a policy into dir, and returns the flags with which an API server
// follows it.
func New(dir, policy string) (Log, []string, error) {
	l := Log{filepath.Join(dir, "audit.log")}
	rules := filepath.Join(dir, "audit-policy.yaml")
	return l, []string{"--audit-policy-file=" + rules, "--audit-log-path=" + l.file}, os.WriteFile(rules, []byte(policy), 0o600)
}

// Entry is one request.
type Entry struct {
	Verb       string
	RequestURI string
	ObjectRef  struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	// Annotations say, among others, how the request was authorised.
	Annotations              map[string]string
	RequestReceivedTimestamp time.Time
}

// Forbidden reports whether the user had no right to what it asked for.
func (e *Entry) Forbidden() bool { return e.Annotations["authorization.k8s.io/decision"] == "forbid" }

// String is the request as a person would name it.
func (e *Entry) String() string { return e.Verb + " " + e.RequestURI }

// Need is the narrowest right to the request, as in "get leases.coordination.k8s.io
// kube-system/kube-scheduler".
func (e *Entry) Need() string {
	ref := e.ObjectRef
	if ref.Resource == "" {
		return e.String()
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s/%s", e.Verb, strings.Trim(e.resource()+"."+ref.APIGroup, "."), ref.Namespace, ref.Name))
}

// resource is what the request is about, with its subresource.
func (e *Entry) resource() string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// Entries are the requests so far, in the order in which they were answered.
func (l Log) Entries() (entries []Entry, err error) {
	text, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was asked yet
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var entry Entry
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("%s: %w", l.file, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Most is how many of the entries came within any one window of that length.
func Most(entries []Entry, window time.Duration) (most int) {
	all := make([]time.Time, 0, len(entries))
	for i := range entries {
		all = append(all, entries[i].RequestReceivedTimestamp)
	}
	slices.SortFunc(all, time.Time.Compare)
	first := 0
	for i, at := range all {
		for at.Sub(all[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
