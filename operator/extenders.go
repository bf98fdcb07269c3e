package operator

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/extender"
)

// extenderRights are what the flags allow.
func (o options) extenderRights() compile.ExtenderPermissions {
	return compile.ExtenderPermissions{Enabled: o.enableExtenders, Writes: o.enableExtenderWrites}
}

// extenderMaker returns what makes clients of extenders; nil where they are off.
func (o options) newExtenderClient(config *restclient.Config, client clientset.Interface, log logr.Logger) func(context.Context, string, extender.Config) (fwk.Extender, error) {
	if !o.enableExtenders {
		return nil
	}
	lent := extender.Options{Certificate: ClientCertificates(client, o.namespace), Forbidden: apiServerAddresses(config), Log: log.WithName("extender")}
	return func(life context.Context, profile string, c extender.Config) (fwk.Extender, error) {
		return extender.New(life, profile, c, lent)
	}
}

// extenderClients returns what makes clients of extenders; nil where they are off.
func (m *Manager) extenderClients() ExtenderClient {
	if m.enableExtenders && m.extenderClient != nil {
		return m.extenderClient
	}
	return m.newExtenderClient(m.config, m.clients.watches, m.log)
}

// ClientCertificates reads the client certificates of extenders from Secrets of
// Berth's own namespace, and of no other. The right is in config/components/extenders.
func ClientCertificates(client clientset.Interface, namespace string) func(context.Context, string) (extender.Certificate, error) {
	return func(ctx context.Context, name string) (extender.Certificate, error) {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return extender.Certificate{}, err
		}
		if secret.Type != v1.SecretTypeTLS {
			return extender.Certificate{}, fmt.Errorf("its type must be %s, is %s", v1.SecretTypeTLS, secret.Type)
		}
		return extender.Certificate{
			Version: string(secret.UID) + "/" + secret.ResourceVersion,
			Chain:   secret.Data[v1.TLSCertKey], Key: secret.Data[v1.TLSPrivateKeyKey],
		}, nil
	}
}

// apiServer is where the API server is, as far as that is known: in a cluster
// its address is in the pod's environment, and so in config.
func apiServerAddresses(config *restclient.Config) []netip.AddrPort {
	u, err := url.Parse(config.Host)
	if err != nil {
		return nil
	}
	port := uint64(443)
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return nil
		}
	}
	var all []netip.AddrPort
	hosts, err := net.LookupHost(u.Hostname()) // of an address, the address
	if err != nil {
		return nil
	}
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			all = append(all, netip.AddrPortFrom(address.Unmap().WithZone(""), uint16(port)))
		}
	}
	return all
}
