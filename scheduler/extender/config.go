package extender

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Config is one extender, as a profile's spec resolves to it.
type Config struct {
	// Name is the extender's in reasons and metrics.
	Name string
	// URL is what the verbs' paths are put behind; CheckURL has no objection.
	URL string
	// Filter, Prioritize, Preempt and Bind are the verbs' paths; empty: not asked.
	Filter     string `json:",omitempty"`
	Prioritize string `json:",omitempty"`
	Preempt    string `json:",omitempty"`
	Bind       string `json:",omitempty"`
	// Weight multiplies the scores that Prioritize returns.
	Weight int64
	// Timeout is how long one request may take.
	Timeout time.Duration
	// CABundle is PEM: who may vouch for the extender.
	CABundle []byte
	// ServerName is whom the certificate must be for; empty: the URL's host.
	ServerName string `json:",omitempty"`
	// ClientCertificate names the Secret with which Berth proves who it is; empty:
	// it does not.
	ClientCertificate string `json:",omitempty"`
	// NodeCacheCapable says that nodes are told by their names only.
	NodeCacheCapable bool `json:",omitempty"`
	// Managed are the resources of which a pod must ask for one, sorted; empty:
	// every pod is the extender's business.
	Managed []string `json:",omitempty"`
	// Ignorable says that an attempt goes on without an extender that fails.
	Ignorable bool `json:",omitempty"`
}

// Interested says whether the extender is asked about a pod: a container, or an
// init container, asks for or is limited in a resource that it manages.
func (c *Config) Interested(pod *v1.Pod) bool {
	if len(c.Managed) == 0 {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Containers, c.manages) || slices.ContainsFunc(pod.Spec.InitContainers, c.manages)
}

func (c *Config) manages(container v1.Container) bool {
	return slices.ContainsFunc(c.Managed, func(name string) bool {
		_, requested := container.Resources.Requests[v1.ResourceName(name)]
		_, limited := container.Resources.Limits[v1.ResourceName(name)]
		return requested || limited
	})
}
