package history

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// newEntry returns the ControllerRevision of a revision that this process is about to
// build.
func (h *History) newEntry(l *ProfileHistory, s RevisionSpec) *appsv1.ControllerRevision {
	name := compile.RevisionName(s.Profile, s.Hash)
	entry := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	known := l.entries[name]
	if known != nil {
		entry = known.DeepCopy()
	}
	if known != nil && s.TrialOnly && !onProbation(known) {
		return entry // a trial of a proved revision changes nothing
	}
	entry.Data = runtime.RawExtension{Raw: s.Data}
	if known == nil || !s.TrialOnly {
		entry.Revision = l.nextNumber(name)
	}
	entry.Labels, entry.Annotations = cloneOrEmpty(entry.Labels), cloneOrEmpty(entry.Annotations)
	entry.Labels[v1alpha1.LabelProfile], entry.Labels[v1alpha1.LabelHash] = s.Profile, s.Hash
	entry.Annotations[v1alpha1.AnnotationGeneration] = strconv.FormatInt(s.Generation, 10)
	entry.Annotations[v1alpha1.AnnotationProfileUID] = string(s.UID)
	annotateConfigs(entry, s.Configs)
	delete(entry.Annotations, v1alpha1.AnnotationProfileGone)
	if !s.TrialOnly {
		delete(entry.Annotations, v1alpha1.AnnotationOnTrial)
	} else if known == nil {
		entry.Annotations[v1alpha1.AnnotationOnTrial] = "true"
	}
	if known != nil && !onProbation(known) {
		return entry
	}
	if l.proved[s.Hash] && !s.TrialOnly {
		clearProbation(entry)
		return entry
	}
	h.markBuilding(entry, s)
	return entry
}

// annotateConfigs records which PluginConfigs the arguments of an entry came from, so
// that a rollback can reference them again.
func annotateConfigs(entry *appsv1.ControllerRevision, configs map[string]string) {
	var pairs []string
	for _, plugin := range slices.Sorted(maps.Keys(configs)) {
		pairs = append(pairs, plugin+"="+configs[plugin])
	}
	if pairs == nil {
		delete(entry.Annotations, v1alpha1.AnnotationPluginConfigs)
		return
	}
	entry.Annotations[v1alpha1.AnnotationPluginConfigs] = strings.Join(pairs, ",")
}

// configsFromAnnotation reads what annotateConfigs wrote.
func configsFromAnnotation(entry *appsv1.ControllerRevision) map[string]string {
	configs := map[string]string{}
	for pair := range strings.SplitSeq(entry.Annotations[v1alpha1.AnnotationPluginConfigs], ",") {
		if plugin, config, ok := strings.Cut(pair, "="); ok {
			configs[plugin] = config
		}
	}
	return configs
}

// markBuilding marks a revision on probation as being built by this process.
func (h *History) markBuilding(entry *appsv1.ControllerRevision, s RevisionSpec) {
	now := h.options.Clock.Now().UTC().Format(time.RFC3339)
	if !onProbation(entry) {
		entry.Annotations[v1alpha1.AnnotationProbation] = now
	}
	entry.Annotations[v1alpha1.AnnotationProcess] = h.options.Process
	entry.Annotations[v1alpha1.AnnotationBuildBegun] = now
	if s.Retry != "" {
		entry.Annotations[v1alpha1.AnnotationRetried] = s.Retry
	}
	if s.Blamed {
		times, _ := rebuilds(entry)
		entry.Annotations[v1alpha1.AnnotationRebuilds] = strconv.Itoa(times+1) + " " + now
	}
}

// maxNumber is the largest number that counts. Berth counts from 1: a larger number is of another
// writer, and the last one would leave none for the next revision.
const maxNumber = math.MaxInt64 / 2

// numberOf returns the number of an entry; 0, which makes it the oldest, for one that does not
// count.
func numberOf(entry *appsv1.ControllerRevision) int64 {
	if entry.Revision > maxNumber {
		return 0
	}
	return entry.Revision
}

// nextNumber returns the revision number for an entry that becomes the newest.
func (l *ProfileHistory) nextNumber(name string) int64 {
	highest, own := int64(0), int64(0)
	for _, e := range l.entries {
		highest = max(highest, numberOf(e))
		if e.Name == name {
			own = numberOf(e)
		}
	}
	if own > 0 && own == highest {
		return own
	}
	return highest + 1
}

// revisionFrom decodes an entry, also one that another version of Berth stored; false when it
// is not one of this package.
func (h *History) revisionFrom(entry *appsv1.ControllerRevision) (Revision, bool) {
	p, err := v1alpha1.DecodeProfile(entry.Data.Raw)
	if err != nil || p.Name != entry.Labels[v1alpha1.LabelProfile] {
		return Revision{}, false
	}
	p.Generation, _ = strconv.ParseInt(entry.Annotations[v1alpha1.AnnotationGeneration], 10, 64)
	return Revision{
		Name: entry.Name, Hash: hashOf(entry), Number: numberOf(entry), Profile: p,
		UID:       types.UID(entry.Annotations[v1alpha1.AnnotationProfileUID]),
		Probation: onProbation(entry), Served: entry.Annotations[v1alpha1.AnnotationServed] != "",
		TrialOnly: entry.Annotations[v1alpha1.AnnotationOnTrial] != "",
		Configs:   configsFromAnnotation(entry),
		Evidence:  h.evidenceOf(entry),
	}, true
}

// hashOf returns the hash, with which an entry's name ends.
func hashOf(entry *appsv1.ControllerRevision) string {
	return strings.TrimPrefix(entry.Name, compile.RevisionName(entry.Labels[v1alpha1.LabelProfile], ""))
}

func onProbation(entry *appsv1.ControllerRevision) bool {
	_, marked := entry.Annotations[v1alpha1.AnnotationProbation]
	return marked
}

// sameData compares the data of two entries as JSON: the API server orders fields in
// its own way.
func sameData(a, b *appsv1.ControllerRevision) bool {
	return bytes.Equal(canonicalJSON(a.Data.Raw), canonicalJSON(b.Data.Raw))
}

func canonicalJSON(text []byte) []byte {
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return text
	}
	out, err := json.Marshal(plain)
	if err != nil {
		return text
	}
	return out
}

func cloneOrEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}
