package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// keysOf returns the records of a message by kind, each by its key or name, and what is gone.
func keysOf(message map[string]any) map[string][]string {
	keys := map[string][]string{}
	for _, kind := range sentKinds {
		records, _ := message[kind].([]any)
		for _, record := range records {
			fields := record.(map[string]any)
			key, _ := fields["key"].(string)
			if name, named := fields["name"].(string); named {
				key = name
			}
			keys[kind] = append(keys[kind], key)
		}
		gone, _ := message["gone"].(map[string]any)
		removed, _ := gone[kind].([]any)
		for _, key := range removed {
			keys[kind] = append(keys[kind], "-"+key.(string))
		}
	}
	return keys
}

// keysOfAll returns what keysOf returns of messages, in their order.
func keysOfAll(messages []map[string]any) map[string][]string {
	all := map[string][]string{}
	for _, m := range messages {
		for kind, keys := range keysOf(m) {
			all[kind] = append(all[kind], keys...)
		}
	}
	return all
}

// typesOf returns the types of messages.
func typesOf(messages []map[string]any) (types []string) {
	for _, m := range messages {
		types = append(types, m["type"].(string))
	}
	return types
}

func checkTypes(t *testing.T, messages []map[string]any, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, typesOf(messages)); diff != "" {
		t.Fatalf("types of messages (-want,+got):\n%s\n%v", diff, messages)
	}
}

func checkKeys(t *testing.T, message map[string]any, want map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(want, keysOf(message)); diff != "" {
		t.Errorf("%s (-want,+got):\n%s", message["type"], diff)
	}
}

// streamObjects are one object of each kind.
func streamObjects() []client.Object {
	return []client.Object{
		kubectltest.Profile("batch", 1),
		fixture.Node("n1").Capacity("cpu", "4").Obj(),
		fixture.Pod("default/web").SchedulerName("batch").Obj(),
		fixture.ResourceSlice("n1", "gpu.example.com").Device("d0", fixture.Attributes{}).Obj(),
		&v1alpha1.SchedulingDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Status: v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultUnschedulable},
		},
	}
}

func TestAStreamHasASnapshotAndThenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t, streamObjects()...)
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		messages := p.take(t)
		checkTypes(t, messages, "snapshot", "synced")
		checkKeys(t, messages[0], map[string][]string{"profiles": {"batch"}, "nodes": {"n1"}, "pods": {"default/web"}, "decisions": {"default/web"}})
		checkRecord(t, messages[0]["nodes"].([]any)[0], `{"devices":1}`)
		if notes := messages[1]["notes"].([]any); len(notes) > 0 {
			t.Errorf("notes: %v", notes)
		}
		if got := p.header.Get("Content-Type"); got != "application/x-ndjson" {
			t.Errorf("the type is %q", got)
		}

		node := fixture.Node("n2").Obj()
		e.create(node)
		messages = p.take(t)
		checkTypes(t, messages, "delta")
		checkKeys(t, messages[0], map[string][]string{"nodes": {"n2"}})

		time.Sleep(deltaInterval)
		node.Spec.Unschedulable = true
		e.update(node)
		messages = p.take(t)
		checkTypes(t, messages, "delta")
		checkRecord(t, messages[0]["nodes"].([]any)[0], `{"name":"n2","cordoned":true}`)

		time.Sleep(deltaInterval)
		e.remove(node)
		messages = p.take(t)
		checkTypes(t, messages, "delta")
		checkKeys(t, messages[0], map[string][]string{"nodes": {"-n2"}})
	})
}

// What would make a pod fit names the taint of a node, which the decision does not have.
func TestAChangedTaintChangesWhatWouldMakePodsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := fixture.Node("n1").Taint("dedicated", "gpu", corev1.TaintEffectNoSchedule).Obj()
		closest := v1alpha1.ClosestNode{Node: "n1", Missing: []v1alpha1.Missing{{Plugin: "TaintToleration", Reason: reasonTaint}}}
		e := newTestEnv(t, node, &v1alpha1.SchedulingDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Status:     v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultUnschedulable, ClosestNodes: []v1alpha1.ClosestNode{closest}},
		}, &v1alpha1.SchedulingDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Status: v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultUnschedulable},
		})
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		p.take(t)
		for _, c := range []struct {
			change func()
			fits   string
		}{
			{func() { node.Spec.Taints[0].Value = "old"; e.update(node) }, "a toleration of taint dedicated=old on n1"},
			{func() { e.remove(node) }, "no untolerated taint on n1"},
		} {
			time.Sleep(deltaInterval)
			c.change()
			messages := p.take(t)
			checkTypes(t, messages, "delta")
			decisions, _ := messages[0]["decisions"].([]any)
			if len(decisions) != 1 {
				t.Fatalf("%d decisions are sent, want that of web alone: %v", len(decisions), decisions)
			}
			checkRecord(t, decisions[0], fmt.Sprintf(`{"key":"default/web","fits":[%q]}`, c.fits))
		}
	})
}

func TestChangesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t)
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		checkTypes(t, p.take(t), "synced")
		e.create(fixture.Node("n0").Obj())
		checkTypes(t, p.take(t), "delta")
		// Within the interval after a delta, nothing is sent.
		brief := fixture.Node("brief").Obj()
		e.create(fixture.Node("n1").Obj())
		e.create(brief)
		e.create(fixture.Pod("default/web").Obj())
		e.remove(brief)
		checkTypes(t, p.take(t))
		time.Sleep(deltaInterval)
		synctest.Wait()
		messages := p.take(t)
		checkTypes(t, messages, "delta")
		checkKeys(t, messages[0], map[string][]string{"nodes": {"n1", "-brief"}, "pods": {"default/web"}})
	})
}

func TestAChangeOfWhatIsNotShownIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := fixture.Pod("default/web").Obj()
		e := newTestEnv(t, pod)
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		p.take(t)
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{"x": "y"}
		e.update(changed)
		checkTypes(t, p.take(t))
	})
}

func TestDevicesOfANodeAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t, fixture.Node("n1").Obj())
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		p.take(t)
		slice := fixture.ResourceSlice("n1", "gpu.example.com").Device("d0", fixture.Attributes{}).Device("d1", fixture.Attributes{}).Obj()
		slice.ResourceVersion = ""
		e.create(slice)
		checkRecord(t, p.take(t)[0]["nodes"].([]any)[0], `{"name":"n1","devices":2}`)
		time.Sleep(deltaInterval)
		e.remove(slice)
		checkRecord(t, p.take(t)[0]["nodes"].([]any)[0], `{"name":"n1","devices":0}`)
	})
}

func TestASilentStreamIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t)
		before := newPage()
		defer e.openStream(before)()
		checkTypes(t, before.take(t)) // nothing is listed yet
		time.Sleep(pingInterval)
		synctest.Wait()
		checkTypes(t, before.take(t), "ping")
		defer e.watchCluster()()
		checkTypes(t, before.take(t), "synced")
		time.Sleep(2 * pingInterval)
		synctest.Wait()
		checkTypes(t, before.take(t), "ping", "ping")
	})
}

func TestALargeSnapshotHasParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t)
		const nodes, pods = maxObjects + 500, 2*maxObjects + 1
		records := map[string]map[string]any{nodesKind: {}, podsKind: {}}
		for i := range nodes {
			records[nodesKind][fmt.Sprint(i)] = Node{Name: fmt.Sprint(i)}
		}
		for i := range pods {
			records[podsKind][fmt.Sprint(i)] = Pod{Key: fmt.Sprint(i)}
		}
		for _, k := range kinds {
			e.server.live.replace(k, records[k.name])
			e.server.live.setAnswered(k)
		}
		p := newPage()
		defer e.openStream(p)()
		messages := p.take(t)
		checkTypes(t, messages, "snapshot", "snapshot", "snapshot", "snapshot", "synced")
		seen := map[string]int{}
		for _, m := range messages {
			n := 0
			for kind, keys := range keysOf(m) {
				n += len(keys)
				for _, key := range keys {
					seen[kind+" "+key]++
				}
			}
			if n > maxObjects {
				t.Errorf("a part has %d objects", n)
			}
		}
		for key, times := range seen {
			if times != 1 {
				t.Errorf("%s is sent %d times", key, times)
			}
		}
		if len(seen) != nodes+pods {
			t.Errorf("%d objects are sent, want %d", len(seen), nodes+pods)
		}
	})
}

func TestASlowClientDoesNotBlockAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t)
		defer e.watchCluster()()
		slow, fast := newPage(), newPage()
		defer e.openStream(slow)()
		defer e.openStream(fast)()
		slow.take(t)
		fast.take(t)
		slow.pause()
		node := fixture.Node("n0").Obj()
		e.create(node)
		for i := range 20 {
			time.Sleep(deltaInterval)
			node.Spec.Unschedulable = i%2 == 0
			e.update(node)
		}
		time.Sleep(deltaInterval)
		e.create(fixture.Node("n1").Obj())
		if n := len(fast.take(t)); n != 22 {
			t.Errorf("the fast client got %d messages, want 22", n)
		}
		slow.resume()
		time.Sleep(deltaInterval)
		synctest.Wait()
		messages := slow.take(t)
		checkTypes(t, messages, "delta", "delta") // the one that it did not read, and all since
		checkKeys(t, messages[1], map[string][]string{"nodes": {"n0", "n1"}})
		checkRecord(t, messages[1]["nodes"].([]any)[0], `{"cordoned":false}`)
	})
}

func TestTheNumberOfStreamsHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnv(t)
		var ends []func()
		for range maxStreams {
			ends = append(ends, e.openStream(newPage()))
		}
		refused := newPage()
		e.openStream(refused)() // it ends here if it was not refused
		if refused.status != 503 || refused.header.Get("Retry-After") != "5" {
			t.Errorf("status %d, Retry-After %q: %s", refused.status, refused.header.Get("Retry-After"), refused.text.String())
		}
		ends[0]()
		p := newPage()
		ends[0] = e.openStream(p)
		if p.status != 0 && p.status != 200 {
			t.Errorf("status %d after another stream ended", p.status)
		}
		for _, end := range ends {
			end()
		}
		if n := len(e.server.live.viewers); n > 0 {
			t.Errorf("%d viewers are left", n)
		}
	})
}

func TestHeadOfAStreamEnds(t *testing.T) {
	e := newTestEnv(t)
	if w := e.respond(e.request(http.MethodHead, "/api/stream", "")); w.Code != 200 || w.Body.Len() > 0 {
		t.Errorf("status %d, body %q", w.Code, w.Body)
	}
}

// What is written into objects by others is text, also where a browser reads it as HTML.
func TestHostileTextsAreEscaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hostile = `<script>alert("1")</script>`
		pod := kubectltest.WithPodScheduled(fixture.Pod("default/web").SchedulerName("batch").Obj(), corev1.ConditionFalse, hostile, hostile)
		pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: hostile}
		node := fixture.Node("n1").Label(corev1.LabelTopologyZone, hostile).Taint("k", hostile, corev1.TaintEffectNoSchedule).Obj()
		decided := &v1alpha1.SchedulingDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Status: v1alpha1.SchedulingDecisionStatus{
				Message: hostile, ClosestNodes: []v1alpha1.ClosestNode{{Node: hostile, Missing: []v1alpha1.Missing{{Reason: hostile, Plugin: hostile}}}},
			},
		}
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: corev1.ObjectReference{UID: pod.UID}, Reason: hostile, Message: hostile,
		}
		e := newTestEnv(t, pod, node, decided, event)
		defer e.watchCluster()()
		p := newPage()
		defer e.openStream(p)()
		w := e.respond(e.request(http.MethodGet, "/api/pods/default/web", ""))
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("status %d, type %q", w.Code, w.Header().Get("Content-Type"))
		}
		for name, text := range map[string]string{"the stream": p.text.String(), "the pod": w.Body.String()} {
			if strings.ContainsAny(text, "<>") {
				t.Errorf("%s has < or >: %s", name, text)
			}
			if !strings.Contains(text, `\u003cscript\u003e`) {
				t.Errorf("%s does not have the text: %s", name, text)
			}
		}
		messages := p.take(t)
		checkRecord(t, messages[0]["pods"].([]any)[0], fmt.Sprintf(`{"reason":%q,"message":%q}`, hostile, hostile))
	})
}
