package try

import (
	"context"
	"fmt"
	"io"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Request is what to try.
type Request struct {
	// Manifest has the documents of a file of -f.
	Manifest io.Reader
	// Replicas, Profile and WithoutNodes are the values of the flags with these names; the zero
	// values are those of flags that are not given.
	Replicas     int
	Profile      string
	WithoutNodes []string
}

// Evaluate returns which nodes the pods of a manifest would be scheduled to, as the verb
// does. Nothing is written.
func Evaluate(ctx context.Context, env verb.Env, c *cluster.Cluster, r Request) (*Result, error) {
	if err := checkReplicas(r.Replicas); err != nil {
		return nil, err
	}
	env.In = r.Manifest
	o := &options{Env: env, cluster: c, files: []string{"-"}, replicas: r.Replicas, profile: r.Profile, withoutNodes: r.WithoutNodes}
	return o.evaluate(ctx)
}

func checkReplicas(n int) error {
	if n < 0 || n > maxReplicas {
		return fmt.Errorf("--replicas: Invalid value: %d: must be between 0 and %d", n, maxReplicas)
	}
	return nil
}
