package compile

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
)

// bound is a number of the spec and the range that the CRD gives it. The API
// server holds it for what it stores; profiles that come from a file pass here
// only.
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

// checkState judges the words that say what kind of profile this is.
func checkEnums(spec *v1alpha1.SchedulingProfileSpec, path *field.Path, found *fieldErrors) {
	checkEnum(spec.State, path.Child("state"), found, v1alpha1.StateActive, v1alpha1.StatePaused)
	checkEnum(spec.Base, path.Child("base"), found, v1alpha1.BaseDefault, v1alpha1.BaseNone)
	checkEnum(spec.Activation, path.Child("activation"), found, v1alpha1.ActivationAutomatic, v1alpha1.ActivationManual)
	decisions := path.Child("decisions")
	checkEnum(spec.Decisions.Annotate, decisions.Child("annotate"), found, v1alpha1.Enabled, v1alpha1.Disabled)
	checkEnum(spec.Decisions.Explain, decisions.Child("explain"), found, v1alpha1.ExplainRefusals, v1alpha1.ExplainAll, v1alpha1.ExplainNone)
	checkEnum(spec.Decisions.Detail, decisions.Child("detail"), found, v1alpha1.DetailReasons, v1alpha1.DetailNodes)
}

// checkWord holds value to one of two or more words.
func checkEnum[T ~string](value T, path *field.Path, found *fieldErrors, words ...T) {
	if slices.Contains(words, value) {
		return
	}
	said := make([]string, len(words))
	for i, word := range words {
		said[i] = string(word)
	}
	last := len(said) - 1
	found.addAccepted(v1alpha1.ReasonInvalidArguments, path, "must be %s or %s, is %q", strings.Join(said[:last], ", "), said[last], value)
}

// checkSettings judges the numbers of a spec whose defaults are filled in.
func checkSettings(spec *v1alpha1.SchedulingProfileSpec, path *field.Path, found *fieldErrors) {
	for _, b := range bounds(spec, path) {
		if b.value < b.min || b.value > b.max {
			found.addAccepted(v1alpha1.ReasonInvalidArguments, b.path, "must be from %d to %d, is %d", b.min, b.max, b.value)
		}
	}
	if first, most := *spec.Queue.InitialBackoffSeconds, *spec.Queue.MaxBackoffSeconds; most < first {
		found.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("queue", "maxBackoffSeconds"),
			"must be at least initialBackoffSeconds, which is %d, is %d", first, most)
	}
}

// checkExports judges names that the API server would look up.
func checkExports(exports v1alpha1.Exports, path *field.Path, found *fieldErrors) {
	if a := exports.Autoscaler; a != nil && len(validation.IsDNS1123Subdomain(a.ConfigMap)) > 0 {
		found.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("autoscaler", "configMap"), "must be the name of a ConfigMap, a DNS subdomain, is %q", a.ConfigMap)
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
