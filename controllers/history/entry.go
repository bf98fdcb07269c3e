package history

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// begun is the entry of a revision that this process begins now.
func (h *History) begun(l *Log, s Step) *appsv1.ControllerRevision {
	name := compile.RevisionName(s.Profile, s.Hash)
	entry := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	known := l.entries[name]
	if known != nil {
		entry = known.DeepCopy()
	}
	if known != nil && s.OnTrial && !onProbation(known) {
		return entry // it proved itself, and does not run now
	}
	entry.Data = runtime.RawExtension{Raw: s.Data}
	if known == nil || !s.OnTrial {
		entry.Revision = l.next(name)
	}
	entry.Labels, entry.Annotations = orEmpty(entry.Labels), orEmpty(entry.Annotations)
	entry.Labels[v1alpha1.LabelProfile] = s.Profile
	entry.Annotations[v1alpha1.AnnotationGeneration] = strconv.FormatInt(s.Generation, 10)
	entry.Annotations[v1alpha1.AnnotationProfileUID] = string(s.UID)
	delete(entry.Annotations, v1alpha1.AnnotationProfileGone)
	if !s.OnTrial {
		delete(entry.Annotations, v1alpha1.AnnotationOnTrial)
	} else if known == nil {
		entry.Annotations[v1alpha1.AnnotationOnTrial] = "true"
	}
	if known != nil && !onProbation(known) {
		return entry
	}
	if interrupted(entry, h.options.Process) {
		count(entry)
	}
	entry.Annotations[v1alpha1.AnnotationProbation] = h.options.Clock.Now().UTC().Format(time.RFC3339)
	entry.Annotations[v1alpha1.AnnotationProcess] = h.options.Process
	return entry
}

// next is the number of an entry that is about to run last.
func (l *Log) next(name string) int64 {
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
func revisionOf(entry *appsv1.ControllerRevision, process string) (compile.Revision, bool) {
	p := &v1alpha1.SchedulingProfile{}
	if err := json.Unmarshal(entry.Data.Raw, p); err != nil || p.Name != entry.Labels[v1alpha1.LabelProfile] {
		return compile.Revision{}, false
	}
	p.Generation, _ = strconv.ParseInt(entry.Annotations[v1alpha1.AnnotationGeneration], 10, 64)
	return compile.Revision{
		Name: entry.Name, Number: entry.Revision, Profile: p,
		UID:       types.UID(entry.Annotations[v1alpha1.AnnotationProfileUID]),
		Probation: onProbation(entry), Crashes: crashes(entry), Interrupted: interrupted(entry, process),
		OnTrial: entry.Annotations[v1alpha1.AnnotationOnTrial] != "",
	}, true
}

func onProbation(entry *appsv1.ControllerRevision) bool {
	_, marked := entry.Annotations[v1alpha1.AnnotationProbation]
	return marked
}

// interrupted says whether another process began the entry and did not say
// that it ended well.
func interrupted(entry *appsv1.ControllerRevision, process string) bool {
	by := entry.Annotations[v1alpha1.AnnotationProcess]
	return onProbation(entry) && by != "" && by != process
}

// crashes is how many processes died on the entry; what is no number counts
// as none.
func crashes(entry *appsv1.ControllerRevision) int {
	n, _ := strconv.Atoi(entry.Annotations[v1alpha1.AnnotationCrashes])
	return n
}

// count notes that the process which the entry names died on it.
func count(entry *appsv1.ControllerRevision) {
	entry.Annotations[v1alpha1.AnnotationCrashes] = strconv.Itoa(crashes(entry) + 1)
	delete(entry.Annotations, v1alpha1.AnnotationProcess)
}

// sameData compares as JSON: the API server has an order of its own.
func sameData(a, b *appsv1.ControllerRevision) bool {
	return bytes.Equal(canonical(a.Data.Raw), canonical(b.Data.Raw))
}

func canonical(text []byte) []byte {
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

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}
