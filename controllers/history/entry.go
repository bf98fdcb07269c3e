package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
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
	"github.com/berthdev/berth/scheduler/fault"
)

// begun is the entry of a revision that this process begins to build now.
func (h *History) newEntry(l *ProfileHistory, s RevisionSpec) *appsv1.ControllerRevision {
	name := compile.RevisionName(s.Profile, s.Hash)
	entry := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	known := l.entries[name]
	if known != nil {
		entry = known.DeepCopy()
	}
	if known != nil && s.TrialOnly && !onProbation(known) {
		return entry // it was proved, and does not run now
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

// noteConfigs notes which PluginConfigs gave arguments of an entry, so that a
// rollback can name them again.
func annotateConfigs(entry *appsv1.ControllerRevision, configs map[string]string) {
	var named []string
	for _, plugin := range slices.Sorted(maps.Keys(configs)) {
		named = append(named, plugin+"="+configs[plugin])
	}
	if named == nil {
		delete(entry.Annotations, v1alpha1.AnnotationPluginConfigs)
		return
	}
	entry.Annotations[v1alpha1.AnnotationPluginConfigs] = strings.Join(named, ",")
}

// configsOf reads what noteConfigs wrote.
func configsFromAnnotation(entry *appsv1.ControllerRevision) map[string]string {
	configs := map[string]string{}
	for pair := range strings.SplitSeq(entry.Annotations[v1alpha1.AnnotationPluginConfigs], ",") {
		if plugin, config, ok := strings.Cut(pair, "="); ok {
			configs[plugin] = config
		}
	}
	return configs
}

// mark notes that this process begins to build a revision on probation.
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

// next is the number of an entry that is about to run last.
func (l *ProfileHistory) nextNumber(name string) int64 {
	highest, own := int64(0), int64(0)
	for _, e := range l.entries {
		highest = max(highest, e.Revision)
		if e.Name == name {
			own = e.Revision
		}
	}
	if own > 0 && own == highest {
		return own
	}
	return highest + 1
}

// revisionOf reads an entry; false when it is none of ours.
func (h *History) revisionFrom(entry *appsv1.ControllerRevision) (Revision, bool) {
	p, err := decode(entry.Data.Raw)
	if err != nil || p.Name != entry.Labels[v1alpha1.LabelProfile] {
		return Revision{}, false
	}
	p.Generation, _ = strconv.ParseInt(entry.Annotations[v1alpha1.AnnotationGeneration], 10, 64)
	return Revision{
		Name: entry.Name, Hash: hashOf(entry), Number: entry.Revision, Profile: p,
		UID:       types.UID(entry.Annotations[v1alpha1.AnnotationProfileUID]),
		Probation: onProbation(entry), Served: entry.Annotations[v1alpha1.AnnotationServed] != "",
		TrialOnly: entry.Annotations[v1alpha1.AnnotationOnTrial] != "",
		Configs:   configsFromAnnotation(entry),
		Evidence:  h.evidenceOf(entry),
	}, true
}

// decode reads a profile that was stored, be it by another version of Berth.
func decode(data []byte) (*v1alpha1.SchedulingProfile, error) {
	if fault.OneVersionDecoded && !bytes.Contains(data, []byte(v1alpha1.GroupVersion.String())) {
		return nil, errors.New("stored under another version")
	}
	return v1alpha1.DecodeProfile(data)
}

// hashOf is the hash that an entry's name ends with.
func hashOf(entry *appsv1.ControllerRevision) string {
	return strings.TrimPrefix(entry.Name, compile.RevisionName(entry.Labels[v1alpha1.LabelProfile], ""))
}

func onProbation(entry *appsv1.ControllerRevision) bool {
	_, marked := entry.Annotations[v1alpha1.AnnotationProbation]
	return marked
}

// sameData compares as JSON: the API server has an order of its own.
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
