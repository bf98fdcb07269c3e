package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/history"
)

const (
	// mostBindings is how many Bindings may be sent for one pod, and mostWrites how many writes
	// there may be for each bind where there are fewestBinds, besides writesPerChange. Events and
	// the status of pods do not count: refused pods have some for each attempt, and binds make
	// attempts.
	mostBindings, mostWrites, fewestBinds = 10, 10, 20
	// mostStatusWrites is how often the status of one pod may be written within a second. A pod
	// that waits alone does not back off, as in kube-scheduler: each event may wake it, and each
	// attempt may change its message.
	mostStatusWrites = 30
)

// writeVerbs are the verbs of requests that write.
var writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

func isWrite(e *audit.Entry) bool { return slices.Contains(writeVerbs, e.Verb) }

// checkAudit checks the requests of the manager's account.
func (r *results) checkAudit(t *timeline) {
	if !t.Audited {
		r.Undecided[I10], r.Undecided[Foreign] = "there is no audit log", "there is no audit log"
		return
	}
	bindings, statuses, writes, kinds := map[key]int{}, map[key][]time.Time{}, 0, map[string]int{}
	for i := range t.Audit {
		e := &t.Audit[i]
		if e.User.Username != t.Options.user() {
			continue
		}
		r.checked(I10)
		if e.Forbidden() {
			r.fail(I10, 0, e.String(), "it is forbidden: %s", e.RequiredPermission())
			continue
		}
		if !isWrite(e) || e.ObjectRef.Resource == "leases" {
			continue
		}
		pod := key{"Pod", e.ObjectRef.Namespace, e.ObjectRef.Name}
		switch resource := e.ObjectRef.Resource + strings.TrimSuffix("/"+e.ObjectRef.Subresource, "/"); resource {
		case "events":
		case "pods/status":
			statuses[pod] = append(statuses[pod], e.RequestReceivedTimestamp)
		default:
			writes++
			kinds[e.Verb+" "+resource]++
			if resource == "pods/binding" {
				bindings[pod]++
			}
		}
		if e.Succeeded() {
			r.checked(Foreign)
			if why := t.isForeign(e); why != "" {
				r.fail(Foreign, 0, e.String(), "%s", why)
			}
		}
	}
	for k, n := range bindings {
		r.checked(I17)
		if most := mostBindings * max(1, t.uidsOf(k)); n > most {
			r.fail(I17, 0, k.String(), "%d Bindings were sent for it, more than %d", n, most)
		}
	}
	for k, at := range statuses {
		slices.SortFunc(at, time.Time.Compare)
		for i := mostStatusWrites; i < len(at); i++ {
			if first := at[i-mostStatusWrites]; at[i].Sub(first) < time.Second {
				r.fail(I17, 0, k.String(), "its status was written more than %d times within a second, from %s", mostStatusWrites, first.Format(time.TimeOnly))
				break
			}
		}
	}
	if changes := t.specChanges() + len(t.leaderChanges()); r.Binds >= fewestBinds && writes > mostWrites*r.Binds+writesPerChange*changes {
		r.fail(I17, 0, "requests", "%d writes for %d binds and %d changes of profiles or leaders, more than %d and %d for each: %s",
			writes, r.Binds, changes, mostWrites, writesPerChange, mostOf(kinds))
	}
}

// specChanges is how many specs of profiles and PluginConfigs there were.
func (t *timeline) specChanges() (n int) {
	for _, k := range slices.Concat(t.keysOf("SchedulingProfile"), t.keysOf("PluginConfig")) {
		specs := map[string]bool{}
		for _, v := range t.versions[k] {
			specs[fmt.Sprint(v.Object.GetUID(), v.Object.GetGeneration())] = true
		}
		n += len(specs)
	}
	return n
}

// mostOf lists the five kinds of which there are most.
func mostOf(kinds map[string]int) string {
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int { return cmp.Or(kinds[b]-kinds[a], strings.Compare(a, b)) })
	var most []string
	for _, name := range names[:min(5, len(names))] {
		most = append(most, fmt.Sprintf("%d %s", kinds[name], name))
	}
	return strings.Join(most, ", ")
}

// uidsOf is how many pods had a name.
func (t *timeline) uidsOf(k key) int {
	uids := map[types.UID]bool{}
	for _, v := range t.versions[k] {
		uids[v.Object.GetUID()] = true
	}
	return len(uids)
}

// isForeign returns why a write is not Berth's concern; "" if it is.
func (t *timeline) isForeign(e *audit.Entry) string {
	ref, own := e.ObjectRef, e.ObjectRef.Namespace == t.Options.Namespace
	resource := ref.Resource
	if ref.Subresource != "" {
		resource += "/" + ref.Subresource
	}
	concern := false
	switch resource {
	case "events", "tokenreviews", "subjectaccessreviews", "schedulingdecisions", "schedulingprofiles/status", "pluginconfigs/status":
		concern = true
	case "schedulingprofiles":
		concern = e.Verb == "create"
	case "controllerrevisions":
		concern = own
	case "configmaps":
		concern = own && ref.Name == "berth-bindings" || t.isExport(ref.Namespace, ref.Name) || ref.Name == ""
	case "pods/binding":
		concern = t.some(ref.Namespace, ref.Name, t.ours)
	case "pods/status", "pods":
		concern = t.some(ref.Namespace, ref.Name, func(pod *corev1.Pod) bool {
			return t.profiles[preemptedBy(pod)] || resource == "pods/status" && t.ours(pod)
		})
	case "persistentvolumeclaims":
		concern = t.usesClaim(ref.Namespace, ref.Name, claimNames)
	case "resourceclaims", "resourceclaims/status":
		concern = t.usesClaim(ref.Namespace, ref.Name, resourceClaimNames) || t.isExtendedResourceClaim(ref.Namespace, ref.Name)
	case "persistentvolumes":
		concern = t.isVolumeOfOurs(ref.Name)
	case "podgroups/status":
		concern = slices.ContainsFunc(t.keysOf("Pod"), func(k key) bool { return k.namespace == ref.Namespace && t.some(k.namespace, k.name, t.ours) })
	}
	if !concern {
		return fmt.Sprintf("%s of %s/%s is not Berth's concern", e.Verb, ref.Namespace, ref.Name)
	}
	return ""
}

// some reports whether a condition is true of some version of a pod.
func (t *timeline) some(namespace, name string, is func(*corev1.Pod) bool) bool {
	return slices.ContainsFunc(t.versions[key{"Pod", namespace, name}], func(v *history.Change) bool { return is(v.Object.(*corev1.Pod)) })
}

// usesClaim reports whether a pod that Berth schedules names a claim.
func (t *timeline) usesClaim(namespace, name string, names func(*corev1.Pod) []string) bool {
	for k := range t.versions {
		if k.kind == "Pod" && k.namespace == namespace && t.some(k.namespace, k.name, func(pod *corev1.Pod) bool {
			return t.ours(pod) && slices.Contains(names(pod), name)
		}) {
			return true
		}
	}
	return false
}

// isExtendedResourceClaim reports whether a ResourceClaim belongs to a pod that Berth schedules,
// as those for extended resources do, which no status may name yet. The name of a claim that is
// created is not in the audit log.
func (t *timeline) isExtendedResourceClaim(namespace, name string) bool {
	if name == "" {
		return true
	}
	return slices.ContainsFunc(t.versions[key{"ResourceClaim", namespace, name}], func(v *history.Change) bool {
		owners := v.Object.GetOwnerReferences()
		return len(owners) > 0 && t.some(namespace, owners[0].Name, t.ours)
	})
}

// isVolumeOfOurs reports whether a volume was bound to a claim of a pod that Berth schedules.
func (t *timeline) isVolumeOfOurs(name string) bool {
	return slices.ContainsFunc(t.versions[key{"PersistentVolume", "", name}], func(v *history.Change) bool {
		ref := v.Object.(*corev1.PersistentVolume).Spec.ClaimRef
		return ref != nil && t.usesClaim(ref.Namespace, ref.Name, claimNames)
	})
}

// isExport reports whether a ConfigMap is one that a profile names in spec.exports.
func (t *timeline) isExport(namespace, name string) bool {
	return slices.ContainsFunc(t.versions[key{"ConfigMap", namespace, name}], func(v *history.Change) bool {
		return v.Object.GetLabels()["app.kubernetes.io/managed-by"] == "berth"
	})
}

// untilQuiet returns how long nothing more may be written until nothing was for Options.Quiet; 0
// where that is so. Leases and nodes do not count, which others write all the time.
func untilQuiet(in Input) time.Duration {
	late := lateChanges(in)
	if len(late) == 0 {
		return 0
	}
	return max(1, late[0].Seen.Add(in.Options.withDefaults().Quiet).Sub(in.Now))
}

// lateChanges returns the changes of the last Options.Quiet, the newest first.
func lateChanges(in Input) (late []*history.Change) {
	from := in.Now.Add(-in.Options.withDefaults().Quiet)
	for i := range slices.Backward(in.History.Changes) {
		change := &in.History.Changes[i]
		if change.Seen.Before(from) {
			break
		}
		if kind := kindOf(change.Object); kind != "Lease" && kind != "Node" {
			late = append(late, change)
		}
	}
	return late
}

// mostLate is how many of the changes at the end are reported.
const mostLate = 5

// checkQuiet checks that Berth wrote nothing at the end. Where there is an audit log, only the
// manager's own writes count.
func (r *results) checkQuiet(t *timeline) {
	r.checked(I13)
	if !t.Audited {
		for _, change := range lateChanges(t.Input)[:min(mostLate, len(lateChanges(t.Input)))] {
			r.fail(I13, change.Revision, keyOf(change.Object).String(), "it was written within the last %s", t.Options.Quiet)
		}
		return
	}
	for _, e := range lateRequests(t.Input)[:min(mostLate, len(lateRequests(t.Input)))] {
		r.fail(I13, 0, e.String(), "it was sent at %s, within the last %s", e.RequestReceivedTimestamp.Format(time.TimeOnly), t.Options.Quiet)
	}
}

// lateRequests returns the writes that the manager sent within the last Options.Quiet, also those
// that changed nothing. Leases do not count, and reviews are no writes.
func lateRequests(in Input) (late []*audit.Entry) {
	options := in.Options.withDefaults()
	from := in.Now.Add(-options.Quiet)
	for i := range in.Audit {
		e := &in.Audit[i]
		at, resource := e.RequestReceivedTimestamp, e.ObjectRef.Resource
		if e.User.Username == options.user() && isWrite(e) && !at.Before(from) && !at.After(in.Now) &&
			!slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, resource) {
			late = append(late, e)
		}
	}
	return late
}

// firstOnNode returns the first version of a pod with a node, unless it was created with it.
func (t *timeline) firstOnNode(k key, uid types.UID) *history.Change {
	known := false
	for _, v := range t.versions[k] {
		if v.Object.GetUID() != uid {
			continue
		}
		if v.Object.(*corev1.Pod).Spec.NodeName != "" {
			if !known || v.Deleted {
				return nil
			}
			return v
		}
		known = true
	}
	return nil
}

// profileAt returns a profile at the end; nil where it does not exist.
func (t *timeline) profileAt(name string) *v1alpha1.SchedulingProfile {
	return last[*v1alpha1.SchedulingProfile](t, key{"SchedulingProfile", "", name})
}
