package explained

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// policy has the API server note each write of a SchedulingDecision once, when it
// is answered, and nothing else.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: berth.dev, resources: [schedulingdecisions]}]
- level: None
`

// audit is the log of an API server.
type audit struct{ file string }

// newAudit writes the policy into dir, and returns the flags with which an API
// server follows it.
func newAudit(dir string) (audit, []string, error) {
	a := audit{filepath.Join(dir, "audit.log")}
	rules := filepath.Join(dir, "audit-policy.yaml")
	return a, []string{"--audit-policy-file=" + rules, "--audit-log-path=" + a.file}, os.WriteFile(rules, []byte(policy), 0o600)
}

// writes are when the API server got each of them, by verb, and all in order.
func (a audit) writes() (byVerb map[string]int, all []time.Time, err error) {
	text, err := os.ReadFile(a.file)
	if err != nil {
		return nil, nil, err
	}
	byVerb = map[string]int{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var entry struct {
			Verb                     string
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", a.file, err)
		}
		byVerb[entry.Verb]++
		all = append(all, entry.RequestReceivedTimestamp)
	}
	slices.SortFunc(all, time.Time.Compare)
	return byVerb, all, nil
}

// most is how many of all fall into any one window of that length.
func most(all []time.Time, window time.Duration) (most int) {
	first := 0
	for i, at := range all {
		for at.Sub(all[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
