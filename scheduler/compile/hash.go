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

// hashDigits is how many hex digits name what runs: 40 bits, few enough to
// read aloud, plenty for one cluster's profiles.
const hashDigits = 10

// resolved is what a hash is taken of: all that changes how pods are scheduled
// or recorded, and nothing else. Where arguments were written is not in it.
type hashInput struct {
	Version    string
	Chains     framework.Chains
	Args       map[string]runtime.Object
	Percentage int32
	Queue      QueueSettings
	Decisions  DecisionSettings
	// Namespaces is left out where all are allowed.
	Namespaces *string `json:",omitempty"`
	// Extenders are left out where there are none.
	Extenders []extender.Config `json:",omitempty"`
}

func hashBlueprint(b *Blueprint, version string) string {
	var namespaces *string
	if b.Namespaces != nil {
		text := b.Namespaces.String()
		namespaces = &text
	}
	return hash(hashInput{
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
	return hash(struct {
		Plugin string
		Args   runtime.Object
	}{plugin, args})
}

// hash returns the first digits of SHA-256 over v's canonical JSON. Arguments
// were decoded from JSON, so they can be encoded again; a type that cannot must
// not share a hash with another by accident, so its error is hashed with it.
func hash(v any) string {
	text, err := canonicalJSON(v)
	if err != nil {
		text = fmt.Appendf(text, "%v: %#v", err, v)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// canonical returns JSON whose keys are sorted at every depth: what an argument
// type keeps as raw JSON comes out the same however its author ordered it.
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
