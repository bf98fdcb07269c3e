package compile

import (
	"crypto/x509"
	"encoding/pem"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// ExtenderRights say what extenders may do in this process. They are not in the
// hash: they do not change what a spec means, but whether it may run.
type ExtenderPermissions struct {
	// Enabled allows extenders, to filter and to prioritize.
	Enabled bool
	// Writes allows them to choose victims and to bind, too.
	Writes bool
}

// AllExtenders allows all that an extender can do: for who judges a spec without
// knowing the manager that will run it.
var AllExtenders = ExtenderPermissions{Enabled: true, Writes: true}

// maxExtenders is how many a profile may have, as the CRD says.
const maxExtenders = 8

// maxCABundle is how many bytes of PEM a caBundle may have: the CRD's bound on
// its base64.
const maxCABundle = 16 << 10

// extenders resolves a profile's extenders: those that may be ignored after the
// others, as kube-scheduler has them, so that what they do not refuse in time
// does not keep others from being asked.
func resolveExtenders(list []v1alpha1.Extender, rights ExtenderPermissions, path *field.Path, found *fieldErrors) []extender.Config {
	if len(list) == 0 {
		return nil
	}
	if !rights.Enabled {
		found.addInvalidExtender(path, "extenders are off: run the manager with --enable-extenders, or leave them out")
	}
	if len(list) > maxExtenders {
		found.addInvalidExtender(path, "must be at most %d, are %d", maxExtenders, len(list))
	}
	checkExtenderList(list, path, found)
	var resolved []extender.Config
	for i := range list {
		at := path.Index(i)
		checkExtender(&list[i], at, found)
		checkVerbs(&list[i], rights, at.Child("verbs"), found)
		checkTLS(&list[i], at.Child("tls"), found)
		resolved = append(resolved, extenderConfig(&list[i]))
	}
	slices.SortStableFunc(resolved, func(a, b extender.Config) int {
		switch {
		case a.Ignorable == b.Ignorable:
			return 0
		case b.Ignorable:
			return -1
		}
		return 1
	})
	return resolved
}

func (f *fieldErrors) addInvalidExtender(path *field.Path, format string, args ...any) {
	f.addAccepted(v1alpha1.ReasonInvalidExtender, path, format, args...)
}

// checkTogether judges what only all extenders can be right or wrong in: names,
// resources, and that one at most binds.
func checkExtenderList(list []v1alpha1.Extender, path *field.Path, found *fieldErrors) {
	names, resources, binder := map[string]int{}, map[string]string{}, -1
	for i, e := range list {
		at := path.Index(i)
		if first, twice := names[e.Name]; twice {
			found.addInvalidExtender(at.Child("name"), "extender %q is here twice: extenders[%d] has the name already", e.Name, first)
		} else {
			names[e.Name] = i
		}
		if e.Verbs.Bind != "" && binder >= 0 {
			found.addInvalidExtender(at.Child("verbs", "bind"), "one extender at most may bind, and %q does already", list[binder].Name)
		} else if e.Verbs.Bind != "" {
			binder = i
		}
		for j, r := range e.ManagedResources {
			name := at.Child("managedResources").Index(j).Child("name")
			if first, twice := resources[r.Name]; twice {
				found.addInvalidExtender(name, "resource %q is managed twice: %s names it already", r.Name, first)
			} else {
				resources[r.Name] = name.String()
			}
		}
	}
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// checkExtender judges what one extender says of itself.
func checkExtender(e *v1alpha1.Extender, path *field.Path, found *fieldErrors) {
	if !dnsLabel.MatchString(e.Name) || len(e.Name) > validation.DNS1123LabelMaxLength {
		found.addInvalidExtender(path.Child("name"), "must be a DNS label of at most 63 characters: lower-case letters, digits and '-', is %q", e.Name)
	}
	if err := extender.CheckURL(e.URL); err != nil {
		found.addInvalidExtender(path.Child("url"), "%v", err)
	}
	for _, b := range []bound{
		{path.Child("weight"), *e.Weight, 1, 1<<31 - 1},
		{path.Child("timeoutSeconds"), *e.TimeoutSeconds, 1, 10},
	} {
		if b.value < b.min || b.value > b.max {
			found.addInvalidExtender(b.path, "must be from %d to %d, is %d", b.min, b.max, b.value)
		}
	}
	if e.Verbs.Prioritize == "" && *e.Weight > v1alpha1.DefaultExtenderWeight {
		found.addInvalidExtender(path.Child("weight"), "counts only with verbs.prioritize: leave it out")
	}
	if e.FailurePolicy != v1alpha1.FailurePolicyFail && e.FailurePolicy != v1alpha1.FailurePolicyIgnore {
		found.addInvalidExtender(path.Child("failurePolicy"), "must be Fail or Ignore, is %q", e.FailurePolicy)
	}
	for j, r := range e.ManagedResources {
		if !framework.IsExtendedResourceName(v1.ResourceName(r.Name)) || len(validation.IsQualifiedName(r.Name)) > 0 {
			found.addInvalidExtender(path.Child("managedResources").Index(j).Child("name"),
				"must be an extended resource, such as example.com/gpu, is %q", r.Name)
		}
	}
}

var verbPath = regexp.MustCompile(`^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$`)

func checkVerbs(e *v1alpha1.Extender, rights ExtenderPermissions, path *field.Path, found *fieldErrors) {
	asked := false
	for _, verb := range []struct {
		name, path string
		writes     bool
	}{
		{"filter", e.Verbs.Filter, false},
		{"prioritize", e.Verbs.Prioritize, false},
		{"preempt", e.Verbs.Preempt, true},
		{"bind", e.Verbs.Bind, true},
	} {
		if verb.path == "" {
			continue
		}
		asked = true
		if !verbPath.MatchString(verb.path) || slices.ContainsFunc(strings.Split(verb.path, "/"), func(s string) bool { return s == "." || s == ".." }) {
			found.addInvalidExtender(path.Child(verb.name), "must be a path of letters, digits, '-', '.', '_', '~' and '/' that does not go up, is %q", verb.path)
		}
		if verb.writes && rights.Enabled && !rights.Writes {
			found.addInvalidExtender(path.Child(verb.name), "extenders may not %s: run the manager with --enable-extender-writes, or leave it out", verb.name)
		}
	}
	if !asked {
		found.addInvalidExtender(path, "must hold at least one of filter, prioritize, preempt and bind")
	}
}

// checkTLS wants certificates that vouch: a bundle without any would trust
// nobody, and one that is partly something else was meant otherwise.
func checkTLS(e *v1alpha1.Extender, path *field.Path, found *fieldErrors) {
	bundle := path.Child("caBundle")
	if len(e.TLS.CABundle) > maxCABundle {
		found.addInvalidExtender(bundle, "must be at most %d bytes, are %d", maxCABundle, len(e.TLS.CABundle))
		return
	}
	certificates, rest := 0, e.TLS.CABundle
	for block, more := pem.Decode(rest); block != nil; block, more = pem.Decode(more) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			found.addInvalidExtender(bundle, "must hold certificates as PEM and nothing else, holds a %s that is none", block.Type)
			return
		}
		certificates++
	}
	if certificates == 0 {
		found.addInvalidExtender(bundle, "must hold the certificate of who vouches for the extender, as PEM: there is none")
	}
	if name := e.TLS.ServerName; name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 && !extender.IsAddress(name) {
		found.addInvalidExtender(path.Child("serverName"), "must be a DNS name or an IP address, is %q", name)
	}
	if ref := e.TLS.ClientCertificateRef; ref != nil && len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		found.addInvalidExtender(path.Child("clientCertificateRef", "name"), "must be the name of a Secret, is %q", ref.Name)
	}
}

func extenderConfig(e *v1alpha1.Extender) extender.Config {
	c := extender.Config{
		Name: e.Name, URL: e.URL,
		Filter: e.Verbs.Filter, Prioritize: e.Verbs.Prioritize, Preempt: e.Verbs.Preempt, Bind: e.Verbs.Bind,
		Weight: int64(*e.Weight), Timeout: seconds(*e.TimeoutSeconds),
		CABundle: e.TLS.CABundle, ServerName: e.TLS.ServerName,
		NodeCacheCapable: e.NodeCacheCapable, Ignorable: e.FailurePolicy == v1alpha1.FailurePolicyIgnore,
	}
	if ref := e.TLS.ClientCertificateRef; ref != nil {
		c.ClientCertificate = ref.Name
	}
	for _, r := range e.ManagedResources {
		c.Managed = append(c.Managed, r.Name)
	}
	slices.Sort(c.Managed)
	return c
}

// ignore adds the resources that extenders look after alone to what
// NodeResourcesFit ignores, on a copy: arguments may be shared. kube-scheduler
// puts them in place of what the arguments name; here both are ignored, since
// neither was written to be dropped.
func ignoreManagedResources(list []v1alpha1.Extender, args map[string]arguments) {
	var ignored []string
	for _, e := range list {
		for _, r := range e.ManagedResources {
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
	}
	fit := args[fitPlugin]
	if _, ok := fit.object.(*configv1.NodeResourcesFitArgs); !ok || len(ignored) == 0 {
		return
	}
	own := fit.object.DeepCopyObject().(*configv1.NodeResourcesFitArgs)
	slices.Sort(ignored)
	for _, name := range ignored {
		if !slices.Contains(own.IgnoredResources, name) {
			own.IgnoredResources = append(own.IgnoredResources, name)
		}
	}
	fit.object = own
	args[fitPlugin] = fit
}

// fitPlugin is the plugin that compares what a pod asks for with what there is.
const fitPlugin = "NodeResourcesFit"
