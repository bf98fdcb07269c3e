// Package audit reads the audit log of an API server, and compares a user's requests with its
// permissions.
package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// Explanations is the policy that logs each write of a SchedulingDecision once, at its
	// response, and nothing else.
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

// User returns the policy that logs each request of one user.
func User(name string) (policy string) {
	return head + fmt.Sprintf(`
- level: Metadata
  users: [%q]
- level: None
`, name)
}

// Log is an audit log, or its end from a position on.
type Log struct {
	file string
	from int64
}

// New writes a policy into dir, and returns the flags of an API server that uses it.
func New(dir, policy string) (Log, []string, error) {
	l := Log{file: filepath.Join(dir, "audit.log")}
	rules := filepath.Join(dir, "audit-policy.yaml")
	return l, []string{"--audit-policy-file=" + rules, "--audit-log-path=" + l.file}, os.WriteFile(rules, []byte(policy), 0o600)
}

// Entry is one request.
type Entry struct {
	Verb       string
	RequestURI string
	ObjectRef  struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	// Annotations have, among others, the decision of the authorizer.
	Annotations              map[string]string
	RequestReceivedTimestamp time.Time
	// User is who sent it.
	User struct{ Username string }
	// ResponseStatus has the status code of the response.
	ResponseStatus struct{ Code int32 }
}

// Succeeded says whether the response is a success.
func (e *Entry) Succeeded() bool {
	return e.ResponseStatus.Code >= http.StatusOK && e.ResponseStatus.Code < http.StatusMultipleChoices
}

// Forbidden says whether the user lacked the permission.
func (e *Entry) Forbidden() bool { return e.Annotations["authorization.k8s.io/decision"] == "forbid" }

// String is the verb and the URI.
func (e *Entry) String() string { return e.Verb + " " + e.RequestURI }

// RequiredPermission is the narrowest permission for the request, as in "get leases.coordination.k8s.io
// kube-system/kube-scheduler".
func (e *Entry) RequiredPermission() string {
	ref := e.ObjectRef
	if ref.Resource == "" {
		return e.String()
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s/%s", e.Verb, strings.Trim(e.resource()+"."+ref.APIGroup, "."), ref.Namespace, ref.Name))
}

// resource is the resource of the request, with its subresource.
func (e *Entry) resource() string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// FromNow returns the log without the requests that it has so far.
func (l Log) FromNow() (Log, error) {
	file, err := os.Stat(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil // no request yet
	}
	if err != nil {
		return l, err
	}
	l.from = file.Size()
	return l, nil
}

// read returns the lines of the log that begin at its position or later.
func (l Log) read() ([]byte, error) {
	file, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(max(0, l.from-1), io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if l.from > 0 { // a line that was being written belongs to what was before
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, err
}

// Entries returns the requests so far, in the order of their responses.
func (l Log) Entries() (entries []Entry, err error) {
	text, err := l.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no request yet
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

// Most returns the largest number of entries within any window of that length.
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
