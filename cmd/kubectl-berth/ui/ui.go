// Package ui is `kubectl berth ui`: it serves a page that shows profiles, pending pods and
// nodes, and explains pods. The page is served on the loopback interface, and reads the
// cluster with the permissions of the user who runs the verb.
package ui

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// loopback is the only address that is listened on.
const loopback = "127.0.0.1"

// maxPort is the largest number of a port.
const maxPort = 65535

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "ui", Arguments: "[--port PORT] [-n NAMESPACE]",
	Short: "Serve a page that shows profiles, pending pods and nodes",
	Long: `Serves a page on 127.0.0.1 until it is interrupted, and prints its URL. The page shows the
profiles, the pods that are pending and why, and the nodes with their pods, as they change.
It explains a pod, evaluates each plugin on each node, compares revisions of a profile and
tries manifests, as the verbs explain, diff and try do.

Everything is read with your permissions, and nothing is written. A kind that you may not
list in all namespaces is listed in the namespace of -n, or of the context; the page says
what is missing. To evaluate a pod, the page needs the permissions of explain --matrix, and
to try a manifest those of try.

The URL has a token that is new for each run. Keep it secret: it gives access to what the
page shows with your permissions. Requests without the token, for another host name or from
another site are rejected.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list", "watch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"list", "watch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingdecisions", Purpose: "for why pods are pending"},
		{Verbs: []string{"list", "watch"}, Resource: "pods"},
		{Verbs: []string{"list", "watch"}, Resource: "nodes", Purpose: "for the map"},
		{Verbs: []string{"list", "watch"}, Group: "resource.k8s.io", Resource: "resourceslices", Purpose: "for the devices of nodes"},
		{Verbs: []string{"get"}, Resource: "pods", Scope: verb.InNamespace, Purpose: "to explain a pod"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingdecisions", Scope: verb.InNamespace, Purpose: "to explain a pod"},
		{Verbs: []string{"list"}, Resource: "events", Scope: verb.InNamespace, Purpose: "to explain a pod"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "to compare revisions"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "to compare with the spec"},
	},
	Examples: []verb.Example{
		{Description: "Serve the page on a free port", Command: "kubectl berth ui"},
		{Description: "Serve it on a port that an SSH tunnel forwards", Command: "kubectl berth ui --port 8090"},
	},
	OnSuccess: "the page was served until it was interrupted",
}

type options struct {
	verb.Env
	port int
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	cmd.Flags().IntVar(&o.port, "port", 0, "the port on 127.0.0.1; 0 for any free one")
	return cmd
}

// run serves the page until ctx ends.
func (o *options) run(ctx context.Context) error {
	if o.port < 0 || o.port > maxPort {
		return fmt.Errorf("--port: Invalid value: %d: must be between 0 and %d", o.port, maxPort)
	}
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, o.port)
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	s := newServer(o.Env, c, listener.Addr().String())
	if _, err := fmt.Fprintf(o.Out, "Berth's page is at %s\nPress Ctrl-C to end it.\n", s.guard.url()); err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

// listen listens on a port of the loopback interface; on any free one for 0.
func listen(ctx context.Context, port int) (net.Listener, error) {
	config := net.ListenConfig{}
	return config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
}
