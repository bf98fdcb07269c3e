package compile

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
)

// bound is a number of the spec and its range in the CRD. The API server checks what it
// stores; profiles from a file are checked only here.
type bound struct {
	path     *field.Path
	value    int32
	min, max int32
}

func bounds(spec *v1alpha1.SchedulingProfileSpec, path *field.Path) []bound {
	queue, decisions := path.Child("queue"), path.Child("decisions")
	return []bound{
		{path.Child("percentageOfNodesToScore"), spec.PercentageOfNodesToScore, 0, 100},
		{queue.Child("initialBackoffSeconds"), *spec.Queue.InitialBackoffSeconds, 1, 86400},
		{queue.Child("maxBackoffSeconds"), *spec.Queue.MaxBackoffSeconds, 1, 86400},
		{queue.Child("flushAfterSeconds"), *spec.Queue.FlushAfterSeconds, 0, 86400},
		{decisions.Child("topScores"), *spec.Decisions.TopScores, 0, 10},
		{decisions.Child("history"), *spec.Decisions.History, 0, 50},
		{decisions.Child("publishSeconds"), *spec.Decisions.PublishSeconds, 1, 3600},
	}
}

// checkEnums validates the fields that take one of a few values.
func checkEnums(spec *v1alpha1.SchedulingProfileSpec, path *field.Path, errs *fieldErrors) {
	checkEnum(spec.State, path.Child("state"), errs, v1alpha1.StateActive, v1alpha1.StatePaused)
	checkEnum(spec.Base, path.Child("base"), errs, v1alpha1.BaseDefault, v1alpha1.BaseNone)
	checkEnum(spec.Activation, path.Child("activation"), errs, v1alpha1.ActivationAutomatic, v1alpha1.ActivationManual)
	decisions := path.Child("decisions")
	checkEnum(spec.Decisions.Annotate, decisions.Child("annotate"), errs, v1alpha1.Enabled, v1alpha1.Disabled)
	checkEnum(spec.Decisions.Explain, decisions.Child("explain"), errs, v1alpha1.ExplainRefusals, v1alpha1.ExplainAll, v1alpha1.ExplainNone)
	checkEnum(spec.Decisions.Detail, decisions.Child("detail"), errs, v1alpha1.DetailReasons, v1alpha1.DetailNodes)
}

// checkEnum reports value unless it is one of words, of which there are two or more.
func checkEnum[T ~string](value T, path *field.Path, errs *fieldErrors, words ...T) {
	if slices.Contains(words, value) {
		return
	}
	said := make([]string, len(words))
	for i, word := range words {
		said[i] = string(word)
	}
	last := len(said) - 1
	errs.addAccepted(v1alpha1.ReasonInvalidArguments, path, "must be %s or %s, is %q", strings.Join(said[:last], ", "), said[last], value)
}

// checkSettings validates the numbers of a defaulted spec.
func checkSettings(spec *v1alpha1.SchedulingProfileSpec, path *field.Path, errs *fieldErrors) {
	for _, b := range bounds(spec, path) {
		if b.value < b.min || b.value > b.max {
			errs.addAccepted(v1alpha1.ReasonInvalidArguments, b.path, "must be from %d to %d, is %d", b.min, b.max, b.value)
		}
	}
	if first, most := *spec.Queue.InitialBackoffSeconds, *spec.Queue.MaxBackoffSeconds; most < first {
		errs.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("queue", "maxBackoffSeconds"),
			"must be at least initialBackoffSeconds, which is %d, is %d", first, most)
	}
}

// allowedNamespaces returns the selector for the labels of allowed namespaces; nil
// where all are allowed.
func allowedNamespaces(a v1alpha1.AllowedNamespaces, path *field.Path, errs *fieldErrors) labels.Selector {
	checkEnum(a.From, path.Child("from"), errs, v1alpha1.NamespacesAll, v1alpha1.NamespacesSelector)
	if chosen := a.From == v1alpha1.NamespacesSelector; chosen != (a.Selector != nil) {
		errs.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("selector"), "must be set where from is Selector, and only there")
		return nil
	}
	if a.Selector == nil {
		return nil
	}
	selector := &metav1.LabelSelector{MatchLabels: a.Selector.MatchLabels}
	for _, r := range a.Selector.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
		})
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		errs.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("selector"), "%v", err)
		return nil
	}
	return parsed
}

// checkExports validates the names of objects that an export writes.
func checkExports(exports v1alpha1.Exports, path *field.Path, errs *fieldErrors) {
	if a := exports.Autoscaler; a != nil && len(validation.IsDNS1123Subdomain(a.ConfigMap)) > 0 {
		errs.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("autoscaler", "configMap"), "must be the name of a ConfigMap, a DNS subdomain, is %q", a.ConfigMap)
	}
}

func queueSettings(q v1alpha1.QueuePolicy) QueueSettings {
	return QueueSettings{
		InitialBackoff: seconds(*q.InitialBackoffSeconds),
		MaxBackoff:     seconds(*q.MaxBackoffSeconds),
		FlushAfter:     seconds(*q.FlushAfterSeconds),
	}
}

func decisionSettings(d v1alpha1.DecisionPolicy) DecisionSettings {
	return DecisionSettings{
		Annotate:  d.Annotate == v1alpha1.Enabled,
		TopScores: int(*d.TopScores),
		History:   int(*d.History),
		Publish:   seconds(*d.PublishSeconds),
		Explain:   d.Explain,
		Nodes:     d.Detail == v1alpha1.DetailNodes,
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
