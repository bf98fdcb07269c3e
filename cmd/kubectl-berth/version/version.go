// Package version is `kubectl berth version`: the plugin's, the server's, and
// Berth's where its Deployment tells.
package version

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Plugin is the plugin's own; set when a release is built.
var Plugin = "dev"

// label is on the Deployment that config/manager ships.
const label, berth = "app.kubernetes.io/name", "berth"

// Verb describes it.
var Verb = verb.Verb{
	Name:  "version",
	Short: "Print the versions of the plugin, the API server and Berth",
	Long: `Berth's version is that of the image which its Deployment names; a Berth that runs
otherwise does not tell. With --client, no cluster is asked.`,
	Rights: []verb.Right{
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", In: verb.InBerth, For: "for Berth's"},
	},
	Examples: []verb.Example{
		{Says: "All of them", Command: "kubectl berth version"},
		{Says: "The plugin's alone", Command: "kubectl berth version --client"},
	},
}

type options struct {
	verb.Env
	client bool
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	cmd.Flags().BoolVar(&o.client, "client", false, "print the plugin's alone")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	fmt.Fprintf(o.Out, "Plugin   %s, %s\n", Plugin, v1alpha1.GroupVersion)
	if o.client {
		return nil
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	server, err := c.Version(ctx)
	if err != nil {
		return cluster.Plain(err)
	}
	fmt.Fprintf(o.Out, "Server   %s\n", server.GitVersion)
	_, err = fmt.Fprintln(o.Out, show.Wrap("Berth    "+images(ctx, c), "", "         "))
	return err
}

// images says what Berth's Deployments run.
func images(ctx context.Context, c *cluster.Cluster) string {
	list := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.Berth), client.MatchingLabels{label: berth}); err != nil {
		return "not to be known: " + cluster.Plain(err).Error()
	}
	var images []string
	for _, d := range list.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			images = append(images, fmt.Sprintf("%s (Deployment %s/%s)", container.Image, d.Namespace, d.Name))
		}
	}
	if images == nil {
		return fmt.Sprintf("not to be known: no Deployment in namespace %s is labelled %s=%s", c.Berth, label, berth)
	}
	return strings.Join(images, ", ")
}
