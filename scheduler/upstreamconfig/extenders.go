package upstreamconfig

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/extender"
)

// maxTimeout bounds the timeout of an extender, as the compiler does.
const maxTimeout = 10 * time.Second

// extendersOf converts the extenders of a configuration, which all its profiles share.
// The remarks say why an extender is left out.
func extendersOf(c *configv1.KubeSchedulerConfiguration, r *Result, errs *Errors) (extenders []v1alpha1.Extender, fields []fieldMapping) {
	names := map[string]bool{}
	for i := range c.Extenders {
		path := field.NewPath("extenders").Index(i)
		e, ok := extenderOf(&c.Extenders[i], path, r, errs)
		if !ok {
			continue
		}
		base := e.Name
		for n := 2; names[e.Name]; n++ {
			e.Name = fmt.Sprintf("%s-%d", base, n)
		}
		names[e.Name] = true
		fields = append(fields, extenderFields(field.NewPath("spec", "extenders").Index(len(extenders)), path)...)
		extenders = append(extenders, e)
	}
	if len(extenders) > 0 {
		r.note(field.NewPath("extenders"), "the manager calls extenders only with --enable-extenders, and lets them preempt and bind only with --enable-extender-writes")
	}
	return extenders, fields
}

// extenderFields maps the fields of an extender of a profile to those of the file.
func extenderFields(berth, upstream *field.Path) []fieldMapping {
	verbs, tls := berth.Child("verbs"), berth.Child("tls")
	var fields []fieldMapping
	for _, m := range []struct{ berth, upstream *field.Path }{
		{verbs.Child("filter"), upstream.Child("filterVerb")},
		{verbs.Child("prioritize"), upstream.Child("prioritizeVerb")},
		{verbs.Child("preempt"), upstream.Child("preemptVerb")},
		{verbs.Child("bind"), upstream.Child("bindVerb")},
		{verbs, upstream},
		{tls.Child("caBundle"), upstream.Child("tlsConfig", "caData")},
		{tls, upstream.Child("tlsConfig")},
		{berth.Child("url"), upstream.Child("urlPrefix")},
		{berth.Child("timeoutSeconds"), upstream.Child("httpTimeout")},
		{berth.Child("failurePolicy"), upstream.Child("ignorable")},
		{berth, upstream},
	} {
		fields = append(fields, fieldMapping{m.berth.String(), m.upstream.String()})
	}
	return fields
}

// ignoredResources returns the sorted names of the resources that extenders of a file have
// with ignoredByScheduler, those of extenders that are left out included.
func ignoredResources(c *configv1.KubeSchedulerConfiguration) []string {
	var names []string
	for i := range c.Extenders {
		for _, m := range c.Extenders[i].ManagedResources {
			if m.IgnoredByScheduler {
				names = append(names, m.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func extenderOf(from *configv1.Extender, path *field.Path, r *Result, errs *Errors) (v1alpha1.Extender, bool) {
	lost := func(at *field.Path, format string, args ...any) (v1alpha1.Extender, bool) {
		r.lost(at, "the extender is left out: "+format, args...)
		return v1alpha1.Extender{}, false
	}
	if err := extender.CheckURL(from.URLPrefix); err != nil {
		return lost(path.Child("urlPrefix"), "Berth cannot call this URL: %v", err)
	}
	tls := from.TLSConfig
	switch {
	case tls != nil && tls.Insecure:
		return lost(path.Child("tlsConfig", "insecure"), "Berth calls no extender without verifying its certificate: set caData instead")
	case tls == nil || len(tls.CAData) == 0 && tls.CAFile == "":
		return lost(path.Child("tlsConfig", "caData"), "Berth trusts only a given CA: set its certificate, as PEM in base64")
	case len(tls.CAData) == 0:
		return lost(path.Child("tlsConfig", "caFile"), "%s is a file on the machine of kube-scheduler: set its content as caData", tls.CAFile)
	}
	e := v1alpha1.Extender{
		Name: extenderName(from.URLPrefix), URL: from.URLPrefix,
		Verbs: v1alpha1.ExtenderVerbs{
			Filter: from.FilterVerb, Prioritize: from.PrioritizeVerb, Preempt: from.PreemptVerb, Bind: from.BindVerb,
		},
		TLS:              v1alpha1.ExtenderTLS{CABundle: tls.CAData, ServerName: tls.ServerName},
		NodeCacheCapable: from.NodeCacheCapable,
	}
	if tls.CertFile != "" || len(tls.CertData) > 0 {
		e.TLS.ClientCertificateRef = &v1alpha1.SecretReference{Name: e.Name + "-client"}
		r.note(path.Child("tlsConfig"), "put the client's certificate and key into the Secret %s-client, of type kubernetes.io/tls, in Berth's namespace", e.Name)
	}
	for _, m := range from.ManagedResources {
		e.ManagedResources = append(e.ManagedResources, v1alpha1.ExtenderManagedResource{Name: m.Name, IgnoredByScheduler: m.IgnoredByScheduler})
	}
	if from.Ignorable {
		e.FailurePolicy = v1alpha1.FailurePolicyIgnore
	}
	e.Weight = extenderWeight(from, path.Child("weight"), r, errs)
	e.TimeoutSeconds = timeout(from.HTTPTimeout.Duration, path.Child("httpTimeout"), r)
	return e, true
}

func extenderWeight(from *configv1.Extender, path *field.Path, r *Result, errs *Errors) *int32 {
	switch {
	case from.PrioritizeVerb == "" && from.Weight > 1:
		r.note(path, "left out: it counts only with prioritizeVerb")
	case from.PrioritizeVerb == "":
	case from.Weight < 1 || from.Weight > math.MaxInt32:
		errs.add(path, "must be from 1 to %d, is %d", math.MaxInt32, from.Weight)
	default:
		weight := int32(from.Weight)
		return &weight
	}
	return nil
}

// timeout rounds a timeout up to whole seconds. 0 is the default, which is 5 s for
// kube-scheduler and for Berth.
func timeout(d time.Duration, path *field.Path, r *Result) *int32 {
	if d <= 0 {
		return nil
	}
	if d > maxTimeout {
		r.lost(path, "%v becomes %v, the longest that Berth waits for an answer", d, maxTimeout)
		d = maxTimeout
	}
	seconds := int32((d + time.Second - 1) / time.Second)
	if whole := time.Duration(seconds) * time.Second; whole != d {
		r.note(path, "%v becomes %v: Berth counts in seconds", d, whole)
	}
	return &seconds
}

// extenderName returns the first label of an extender's host; "extender" where that is
// no name, as in an IP address.
func extenderName(prefix string) string {
	_, host, _ := strings.Cut(strings.ToLower(prefix), "://")
	if end := strings.IndexAny(host, ".:/"); end >= 0 {
		host = host[:end]
	}
	if len(validation.IsDNS1123Label(host)) == 0 && strings.Trim(host, "0123456789") != "" && len(host) <= maxExtenderNameLength {
		return host
	}
	return "extender"
}

// maxExtenderNameLength leaves room for a suffix that makes the name unique.
const maxExtenderNameLength = 50

// extenders converts the Blueprint's extenders.
func (e *exporter) extenders(path *field.Path) []configv1.Extender {
	var all []configv1.Extender
	for _, c := range e.blueprint.Extenders {
		out := configv1.Extender{
			URLPrefix: c.URL, FilterVerb: c.Filter, PrioritizeVerb: c.Prioritize, PreemptVerb: c.Preempt, BindVerb: c.Bind,
			EnableHTTPS: true, TLSConfig: &configv1.ExtenderTLSConfig{ServerName: c.ServerName, CAData: c.CABundle},
			NodeCacheCapable: c.NodeCacheCapable, Ignorable: c.Ignorable,
		}
		out.HTTPTimeout.Duration = c.Timeout
		if c.Prioritize != "" {
			out.Weight = c.Weight
		}
		for _, name := range c.Managed {
			// ignoredByScheduler is missing: the arguments of NodeResourcesFit hold it.
			out.ManagedResources = append(out.ManagedResources, configv1.ExtenderManagedResource{Name: name})
		}
		if c.ClientCertificate != "" {
			e.lost(path, "extender %s: tlsConfig.certFile and keyFile are yours to fill in: they are in the Secret %s in Berth's namespace", c.Name, c.ClientCertificate)
		}
		all = append(all, out)
	}
	return all
}
