package compile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// hashDigits is the length of a hash in hex digits. 40 bits are short enough to read
// aloud and unique enough for the profiles of one cluster.
const hashDigits = 10

// hashInput is what a hash is computed from: all that changes how pods are scheduled
// or recorded, but not where arguments were written. The field names of this type and
// of those within are part of the hash.
type hashInput struct {
	Version    string
	Chains     framework.Chains
	Args       map[string]runtime.Object
	Percentage int32
	Queue      QueueSettings
	Decisions  DecisionSettings
	// Namespaces is nil where all are allowed.
	Namespaces *string `json:",omitempty"`
	// Extenders is nil where there are none.
	Extenders []extender.Config `json:",omitempty"`
}

func hashBlueprint(b *Blueprint, version string) string {
	var namespaces *string
	if b.Namespaces != nil {
		text := b.Namespaces.String()
		namespaces = &text
	}
	return canonicalHash(hashInput{
		Namespaces: namespaces,
		Version:    version,
		Chains:     b.Chains,
		Args:       b.Args,
		Percentage: b.PercentageOfNodesToScore,
		Queue:      b.Queue,
		Decisions:  b.Decisions,
		Extenders:  b.Extenders,
	})
}

func hashConfig(plugin string, args runtime.Object) string {
	return canonicalHash(struct {
		Plugin string
		Args   runtime.Object
	}{plugin, args})
}

// canonicalHash returns the first digits of SHA-256 over v's canonical JSON. Arguments come from
// JSON, so they can be encoded. Should a type fail to encode, the error and the Go
// value are hashed with it, so that two such values do not share a hash.
func canonicalHash(v any) string {
	text, err := canonicalJSON(v)
	if err != nil {
		text = fmt.Appendf(text, "%v: %#v", err, v)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// canonicalJSON returns v as JSON with sorted keys at every depth, so that raw JSON
// inside an argument type has the same form in whatever order its author wrote it.
func canonicalJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}
