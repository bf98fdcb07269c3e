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

// ExtenderPermissions say what extenders may do in this process. They are not part of
// the hash: they decide whether a spec may run, not what it means.
type ExtenderPermissions struct {
	// Enabled allows extenders to filter and to prioritize.
	Enabled bool
	// Writes allows extenders to preempt and to bind as well.
	Writes bool
}

// AllExtenders permits everything that an extender can do, for callers that validate a
// spec without knowing the flags of the manager that will run it.
var AllExtenders = ExtenderPermissions{Enabled: true, Writes: true}

// maxExtenders bounds the extenders of a profile, as the CRD does.
const maxExtenders = 8

// maxCABundle bounds a caBundle, in bytes of PEM. The CRD bounds its base64.
const maxCABundle = 16 << 10

// resolveExtenders resolves a profile's extenders. Ignorable ones come last, as in
// kube-scheduler, so that a slow ignorable extender does not delay the calls to the
// others.
func resolveExtenders(list []v1alpha1.Extender, permissions ExtenderPermissions, path *field.Path, errs *fieldErrors) []extender.Config {
	if len(list) == 0 {
		return nil
	}
	if !permissions.Enabled {
		errs.addInvalidExtender(path, "extenders are off: run the manager with --enable-extenders, or leave them out")
	}
	if len(list) > maxExtenders {
		errs.addInvalidExtender(path, "must be at most %d, are %d", maxExtenders, len(list))
	}
	checkExtenderList(list, path, errs)
	var resolved []extender.Config
	for i := range list {
		at := path.Index(i)
		checkExtender(&list[i], at, errs)
		checkVerbs(&list[i], permissions, at.Child("verbs"), errs)
		checkTLS(&list[i], at.Child("tls"), errs)
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

// checkExtenderList validates the extenders together: their names and managed
// resources are unique, and at most one extender binds.
func checkExtenderList(list []v1alpha1.Extender, path *field.Path, errs *fieldErrors) {
	names, resources, binder := map[string]int{}, map[string]string{}, -1
	for i, e := range list {
		at := path.Index(i)
		if first, twice := names[e.Name]; twice {
			errs.addInvalidExtender(at.Child("name"), "Duplicate value: %q: extenders[%d] already has this name", e.Name, first)
		} else {
			names[e.Name] = i
		}
		if e.Verbs.Bind != "" && binder >= 0 {
			errs.addInvalidExtender(at.Child("verbs", "bind"), "at most one extender may bind, and %q already does", list[binder].Name)
		} else if e.Verbs.Bind != "" {
			binder = i
		}
		for j, r := range e.ManagedResources {
			name := at.Child("managedResources").Index(j).Child("name")
			if first, twice := resources[r.Name]; twice {
				errs.addInvalidExtender(name, "Duplicate value: %q: %s already names it", r.Name, first)
			} else {
				resources[r.Name] = name.String()
			}
		}
	}
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// checkExtender validates the fields of one extender.
func checkExtender(e *v1alpha1.Extender, path *field.Path, errs *fieldErrors) {
	if !dnsLabel.MatchString(e.Name) || len(e.Name) > validation.DNS1123LabelMaxLength {
		errs.addInvalidExtender(path.Child("name"), "must be a DNS label of at most 63 characters: lower-case letters, digits and '-', is %q", e.Name)
	}
	if err := extender.CheckURL(e.URL); err != nil {
		errs.addInvalidExtender(path.Child("url"), "%v", err)
	}
	for _, b := range []bound{
		{path.Child("weight"), *e.Weight, 1, 1<<31 - 1},
		{path.Child("timeoutSeconds"), *e.TimeoutSeconds, 1, 10},
	} {
		if b.value < b.min || b.value > b.max {
			errs.addInvalidExtender(b.path, "must be from %d to %d, is %d", b.min, b.max, b.value)
		}
	}
	if e.Verbs.Prioritize == "" && *e.Weight > v1alpha1.DefaultExtenderWeight {
		errs.addInvalidExtender(path.Child("weight"), "counts only with verbs.prioritize: leave it out")
	}
	if e.FailurePolicy != v1alpha1.FailurePolicyFail && e.FailurePolicy != v1alpha1.FailurePolicyIgnore {
		errs.addInvalidExtender(path.Child("failurePolicy"), "must be Fail or Ignore, is %q", e.FailurePolicy)
	}
	for j, r := range e.ManagedResources {
		if !framework.IsExtendedResourceName(v1.ResourceName(r.Name)) || len(validation.IsQualifiedName(r.Name)) > 0 {
			errs.addInvalidExtender(path.Child("managedResources").Index(j).Child("name"),
				"must be an extended resource, such as example.com/gpu, is %q", r.Name)
		}
	}
}

var verbPath = regexp.MustCompile(`^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$`)

func checkVerbs(e *v1alpha1.Extender, permissions ExtenderPermissions, path *field.Path, errs *fieldErrors) {
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
			errs.addInvalidExtender(path.Child(verb.name), "must be a path of letters, digits, '-', '.', '_', '~' and '/' that does not go up, is %q", verb.path)
		}
		if verb.writes && permissions.Enabled && !permissions.Writes {
			errs.addInvalidExtender(path.Child(verb.name), "extenders may not %s: run the manager with --enable-extender-writes, or leave it out", verb.name)
		}
	}
	if !asked {
		errs.addInvalidExtender(path, "must hold at least one of filter, prioritize, preempt and bind")
	}
}

// checkTLS validates the certificates and names of an extender's TLS configuration. A
// caBundle without a certificate would trust no server; one with other content is
// probably a mistake.
func checkTLS(e *v1alpha1.Extender, path *field.Path, errs *fieldErrors) {
	bundle := path.Child("caBundle")
	if len(e.TLS.CABundle) > maxCABundle {
		errs.addInvalidExtender(bundle, "must be at most %d bytes, are %d", maxCABundle, len(e.TLS.CABundle))
		return
	}
	certificates, rest := 0, e.TLS.CABundle
	for block, more := pem.Decode(rest); block != nil; block, more = pem.Decode(more) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			errs.addInvalidExtender(bundle, "must hold PEM certificates only, holds an invalid block of type %s", block.Type)
			return
		}
		certificates++
	}
	if certificates == 0 {
		errs.addInvalidExtender(bundle, "must hold at least one CA certificate in PEM")
	}
	if name := e.TLS.ServerName; name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 && !extender.IsAddress(name) {
		errs.addInvalidExtender(path.Child("serverName"), "must be a DNS name or an IP address, is %q", name)
	}
	if ref := e.TLS.ClientCertificateRef; ref != nil && len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		errs.addInvalidExtender(path.Child("clientCertificateRef", "name"), "must be the name of a Secret, is %q", ref.Name)
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
	c.Managed = managedNames(e)
	return c
}

func managedNames(e *v1alpha1.Extender) (names []string) {
	for _, r := range e.ManagedResources {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// BindingExtender returns the name of the extender that binds a pod of the profile; "" where the
// profile's bind plugins do.
func BindingExtender(p *v1alpha1.SchedulingProfile, pod *v1.Pod) string {
	for i := range p.Spec.Extenders {
		e := &p.Spec.Extenders[i]
		calls := extender.Config{Managed: managedNames(e)}
		if e.Verbs.Bind != "" && calls.Interested(pod) {
			return e.Name
		}
	}
	return ""
}

// ignoreManagedResources adds the resources that only extenders check to
// ignoredResources of NodeResourcesFit, in a copy, since arguments may be shared.
// kube-scheduler replaces what the arguments ignore by these resources; Berth ignores
// both, because the user asked for both.
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

// fitPlugin is the plugin that compares requested with allocatable resources.
const fitPlugin = "NodeResourcesFit"
