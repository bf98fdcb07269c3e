// Package version is `kubectl berth version`: it prints the versions of the plugin, the API
// server and Berth.
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
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Plugin is the version of the plugin. A release build sets it.
var Plugin = "dev"

// nameLabel and nameValue are the label of the Deployment in config/manager.
const nameLabel, nameValue = "app.kubernetes.io/name", "berth"

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "version", Arguments: "[--client] [-o json|yaml]",
	Short: "Print the versions of the plugin, the API server and Berth",
	Long: `Berth's version is the image of its Deployment; without a Deployment it is unknown. With
--client, only the version of the plugin is printed, without contacting a cluster.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", Scope: verb.InBerthNamespace, Purpose: "for the version of Berth"},
	},
	Examples: []verb.Example{
		{Description: "All versions", Command: "kubectl berth version"},
		{Description: "The version of the plugin", Command: "kubectl berth version --client"},
	},
}

// Versions is the output of -o json.
type Versions struct {
	// Plugin is the version of this program, APIVersion the API group and version of Berth that
	// it uses.
	Plugin     string `json:"plugin"`
	APIVersion string `json:"apiVersion"`
	// Server is the version of the API server; empty with --client.
	Server string `json:"server,omitempty"`
	// Berth are the images of its Deployments; BerthUnknown says why there are none.
	Berth        []Image `json:"berth,omitempty"`
	BerthUnknown string  `json:"berthUnknown,omitempty"`
}

// Image is an image that a Deployment of Berth runs.
type Image struct {
	Image string `json:"image"`
	// Deployment is namespace/name.
	Deployment string `json:"deployment"`
}

type options struct {
	verb.Env
	client bool
	output *show.Format
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env, output: show.NewFormat()}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	cmd.Flags().BoolVar(&o.client, "client", false, "print the version of the plugin only")
	o.output.AddFlag(cmd, "")
	complete.RegisterFlag(cmd, "output", complete.Values(o.output.All()...))
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	v := Versions{Plugin: Plugin, APIVersion: v1alpha1.GroupVersion.String()}
	if !o.client {
		if err := o.readVersions(ctx, &v); err != nil {
			return err
		}
	}
	if o.output.Structured() {
		return o.output.Print(o.Out, v)
	}
	fmt.Fprintf(o.Out, "Plugin   %s, %s\n", v.Plugin, v.APIVersion)
	if o.client {
		return nil
	}
	fmt.Fprintf(o.Out, "Server   %s\n", v.Server)
	berth := "unknown: " + v.BerthUnknown
	if v.BerthUnknown == "" {
		var images []string
		for _, i := range v.Berth {
			images = append(images, fmt.Sprintf("%s (Deployment %s)", i.Image, i.Deployment))
		}
		berth = strings.Join(images, ", ")
	}
	_, err := fmt.Fprintln(o.Out, show.Wrap("Berth    "+berth, "", "         "))
	return err
}

// readVersions reads the versions of the API server and of Berth.
func (o *options) readVersions(ctx context.Context, v *Versions) error {
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	server, err := c.Version(ctx)
	if err != nil {
		return cluster.UserError(err)
	}
	v.Server = server.GitVersion
	v.Berth, v.BerthUnknown = berthImages(ctx, c)
	return nil
}

// berthImages returns the images of Berth's Deployments, or why they are unknown.
func berthImages(ctx context.Context, c *cluster.Cluster) (images []Image, unknown string) {
	list := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.BerthNamespace), client.MatchingLabels{nameLabel: nameValue}); err != nil {
		return nil, cluster.UserError(err).Error()
	}
	for _, d := range list.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			images = append(images, Image{Image: container.Image, Deployment: d.Namespace + "/" + d.Name})
		}
	}
	if images == nil {
		return nil, fmt.Sprintf("no Deployment in namespace %s has the label %s=%s", c.BerthNamespace, nameLabel, nameValue)
	}
	return images, ""
}
