package ui

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/explain"
	"github.com/berthdev/berth/cmd/kubectl-berth/try"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// twoRevisions returns a profile whose second revision is running, and both revisions.
func twoRevisions() (p *v1alpha1.SchedulingProfile, first, second *appsv1.ControllerRevision) {
	first = kubectltest.Revision(kubectltest.Profile("batch", 6), 1)
	newer := kubectltest.Profile("batch", 7, kubectltest.WithWeight("NodeResourcesFit", 5))
	second = kubectltest.Revision(newer, 2)
	return kubectltest.Running(newer, second, 7), first, second
}

// queryObjects are a profile with revisions, two nodes, a pending pod with events and a pod of
// kube-scheduler.
func queryObjects() []client.Object {
	p, first, second := twoRevisions()
	p.Status.Trial = &v1alpha1.TrialStatus{Hash: p.Status.Programmed.Hash, Sampled: 9, FitAfter: 9}
	event := func(name, reason string, ago time.Duration, uid string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: "Warning", Reason: reason, Message: "0/2 nodes", Count: 3,
			LastTimestamp: kubectltest.Ago(ago), Source: corev1.EventSource{Component: "berth"}, InvolvedObject: corev1.ObjectReference{UID: fixture.Pod(uid).Obj().UID},
		}
	}
	return []client.Object{
		p, first, second,
		fixture.Node("n1").Capacity("cpu", "4", "memory", "16Gi").Obj(), fixture.Node("n2").Capacity("cpu", "1", "memory", "16Gi").Obj(),
		fixture.Pod("default/web").SchedulerName("batch").Requests("cpu", "2").Obj(),
		fixture.Pod("default/foreign").SchedulerName("default-scheduler").Obj(),
		event("older", "FailedScheduling", time.Hour, "default/web"), event("newer", "Preempted", time.Minute, "default/web"), event("foreign", "Pulled", time.Minute, "default/foreign"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
	}
}

func hashOf(revision *appsv1.ControllerRevision) string {
	return strings.TrimPrefix(revision.Name, "batch-")
}

const podYAML = "{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {schedulerName: batch, containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}}"

func TestSession(t *testing.T) {
	e := newTestEnv(t)
	status, got := e.get("/api/session")
	want := map[string]any{
		"version": "dev", "kubernetes": "v1.37.1", "context": "kind-dev", "server": "https://127.0.0.1:6443", "namespace": "default",
		"berthNamespace": "berth-system", "started": "2026-03-01T12:00:00Z",
	}
	if diff := cmp.Diff(want, got); status != 200 || diff != "" {
		t.Errorf("status %d (-want,+got):\n%s", status, diff)
	}
}

func TestAPodIsExplained(t *testing.T) {
	e := newTestEnv(t, queryObjects()...)
	status, got := e.get("/api/pods/default/web")
	if status != 200 {
		t.Fatalf("status %d: %v", status, got)
	}
	printed, _, _ := strings.Cut(e.fake.Run(explain.New, "pod/web"), "exit 0")
	if diff := cmp.Diff(printed, got["text"]); diff != "" {
		t.Errorf("the text is not what the verb prints (-want,+got):\n%s", diff)
	}
	printed, _, _ = strings.Cut(e.fake.Run(explain.New, "pod/web", "-o", "json"), "exit 0")
	if diff := cmp.Diff(fromJSON(t, []byte(printed)), got["explanation"]); diff != "" {
		t.Errorf("the explanation is not what the verb prints (-want,+got):\n%s", diff)
	}
	checkRecord(t, got, `{"notes":[],"events":[
		{"type":"Warning","reason":"Preempted","message":"0/2 nodes","count":3,"last":"2026-03-01T11:59:00Z","from":"berth"},
		{"type":"Warning","reason":"FailedScheduling","message":"0/2 nodes","count":3,"last":"2026-03-01T11:00:00Z","from":"berth"}]}`)
}

func TestWhatMayNotBeReadOfAPodIsNoted(t *testing.T) {
	e := newTestEnv(t, queryObjects()...)
	e.client.reject(forbidden)
	status, got := e.get("/api/pods/default/web")
	notes, _ := got["notes"].([]any)
	if status != 200 || len(notes) != 2 {
		t.Fatalf("status %d, notes %q", status, notes)
	}
	for i, want := range []string{"Cannot read the SchedulingProfiles: ", "The events of the pod cannot be listed: "} {
		if note := notes[i].(string); !strings.HasPrefix(note, want) || !strings.Contains(note, `cannot list resource`) {
			t.Errorf("note %q, want %q and the right that is missing", note, want)
		}
	}
}

func TestEventsOfBothAPIs(t *testing.T) {
	last := metav1.NewMicroTime(kubectltest.Now)
	for name, c := range map[string]struct {
		event corev1.Event
		want  string
	}{
		"an event of events.k8s.io":            {corev1.Event{EventTime: last, ReportingController: "berth"}, `{"count":1,"last":"2026-03-01T12:00:00Z","from":"berth"}`},
		"a series of events":                   {corev1.Event{EventTime: metav1.NewMicroTime(kubectltest.Now.Add(-time.Hour)), Series: &corev1.EventSeries{Count: 7, LastObservedTime: last}}, `{"count":7,"last":"2026-03-01T12:00:00Z"}`},
		"an event with its creation time only": {corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: kubectltest.Ago(0)}}, `{"count":1,"last":"2026-03-01T12:00:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) { checkRecord(t, eventOf(&c.event), c.want) })
	}
}

func TestTheMatrixIsThatOfTheVerb(t *testing.T) {
	e := newTestEnv(t, queryObjects()...)
	status, got := e.get("/api/pods/default/web/matrix")
	if status != 200 || got["feasible"] != 1.0 {
		t.Fatalf("status %d, %v feasible: %v", status, got["feasible"], got)
	}
	printed, _, _ := strings.Cut(e.fake.Run(explain.New, "pod/web", "--matrix", "-o", "json"), "\n}\n")
	if diff := cmp.Diff(fromJSON(t, []byte(printed+"\n}")), got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestRevisions(t *testing.T) {
	_, first, second := twoRevisions()
	e := newTestEnv(t, queryObjects()...)
	status, got := e.get("/api/profiles/batch/revisions")
	if status != 200 {
		t.Fatalf("status %d: %v", status, got)
	}
	checkRecord(t, got, fmt.Sprintf(`{"profile":"batch","running":%[2]q,"revisions":[
		{"hash":%[2]q,"number":2,"generation":7,"created":"2026-02-28T18:00:00Z","status":"stable","running":true},
		{"hash":%[1]q,"number":1,"generation":6,"created":"2026-02-28T17:00:00Z","status":"stable","running":false}]}`, hashOf(first), hashOf(second)))
}

func TestRevisionsOfADeletedProfile(t *testing.T) {
	_, first, _ := twoRevisions()
	e := newTestEnv(t, first)
	status, got := e.get("/api/profiles/batch/revisions")
	if revisions, _ := got["revisions"].([]any); status != 200 || got["running"] != "" || len(revisions) != 1 {
		t.Errorf("status %d: %v", status, got)
	}
	status, got = e.get("/api/profiles/batch/diff?from=spec&to=" + hashOf(first))
	if status != 404 {
		t.Errorf("a diff with the spec has status %d: %v", status, got)
	}
}

func TestDiff(t *testing.T) {
	_, first, second := twoRevisions()
	for name, c := range map[string]struct{ query, want string }{
		"two revisions": {
			"from=" + hashOf(first) + "&to=" + hashOf(second),
			fmt.Sprintf(`{"profile":"batch","from":{"hash":%q,"title":"revision 1, generation 6"},"to":{"hash":%q,"title":"revision 2, generation 7"},
			"trial":{"sampled":9,"fitBefore":null,"fitAfter":9,"lost":[],"time":null}}`, hashOf(first), hashOf(second)),
		},
		"back": {
			"from=" + hashOf(second) + "&to=" + hashOf(first), `{"trial":null}`,
		},
		"a revision and the spec": {
			"from=" + hashOf(first) + "&to=spec", `{"to":{"hash":"spec","title":"spec, generation 7"},"trial":null}`,
		},
		"no difference": {
			"from=" + hashOf(second) + "&to=spec", `{"sections":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t, queryObjects()...)
			status, got := e.get("/api/profiles/batch/diff?" + c.query)
			if status != 200 {
				t.Fatalf("status %d: %v", status, got)
			}
			checkRecord(t, got, c.want)
			if titles := fmt.Sprint(got["equal"]); !strings.Contains(titles, "filter") || !strings.Contains(titles, "settings") {
				t.Errorf("equal are %s", titles)
			}
			if name == "no difference" {
				return
			}
			sections := got["sections"].([]any)
			if len(sections) != 1 {
				t.Fatalf("sections: %v", sections)
			}
			section := sections[0].(map[string]any)
			signs := map[string]string{}
			for _, line := range section["lines"].([]any) {
				line := line.(map[string]any)
				if text := line["text"].(string); strings.HasPrefix(text, "NodeResourcesFit, ") {
					signs[line["sign"].(string)] = text
				}
			}
			want := map[string]string{"-": "NodeResourcesFit, weight 1", "+": "NodeResourcesFit, weight 5"}
			if name == "back" {
				want = map[string]string{"-": want["+"], "+": want["-"]}
			}
			if diff := cmp.Diff(want, signs); section["title"] != "score" || diff != "" {
				t.Errorf("section %v (-want,+got):\n%s", section["title"], diff)
			}
		})
	}
}

func TestTry(t *testing.T) {
	e := newTestEnv(t, queryObjects()...)
	w := e.respond(e.request(http.MethodPost, "/api/try?replicas=2&profile=batch&without-node=n2", podYAML))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	got := fromJSON(t, w.Body.Bytes())
	e.fake.In = podYAML
	printed, _, _ := strings.Cut(e.fake.Run(try.New, "-f", "-", "--replicas", "2", "--profile", "batch", "--without-node", "n2", "-o", "json"), "exit 0")
	if diff := cmp.Diff(fromJSON(t, []byte(printed)), got); diff != "" {
		t.Errorf("the result is not that of the verb (-want,+got):\n%s", diff)
	}
	if pods := got["pods"].([]any); len(pods) != 2 || pods[0].(map[string]any)["node"] != "n1" {
		t.Errorf("pods: %v", pods)
	}
	list := &corev1.PodList{}
	if err := e.client.List(t.Context(), list); err != nil || len(list.Items) != 2 {
		t.Errorf("%d pods after the dry run, want 2: %v", len(list.Items), err)
	}
}

func TestErrorsOfQueries(t *testing.T) {
	_, first, second := twoRevisions()
	rejectGet := func(err error) func(*testEnv) {
		return func(e *testEnv) {
			e.fake.Fail = func(verb string, object any) error {
				if _, isPod := object.(*corev1.Pod); isPod && verb == "get" {
					return err
				}
				return nil
			}
		}
	}
	rejectList := func(kind string) func(*testEnv) {
		return func(e *testEnv) {
			e.client.reject(func(verb, requested, namespace string) error {
				if requested == kind {
					return forbidden(verb, requested, namespace)
				}
				return nil
			})
		}
	}
	for name, c := range map[string]struct {
		target, body string
		prepare      func(*testEnv)
		status       int
		want         string
	}{
		"no such pod":                        {"/api/pods/default/none", "", nil, 404, "There is no pod default/none."},
		"no such namespace":                  {"/api/pods/none/web", "", nil, 404, "There is no pod none/web."},
		"a name that no pod has":             {"/api/pods/default/Web_1", "", nil, 404, "No pod can have the name"},
		"no permission to get a pod":         {"/api/pods/default/web", "", rejectGet(forbidden("get", "Pod", "default")), 403, "cannot get resource in the namespace default"},
		"credentials that expired":           {"/api/pods/default/web", "", rejectGet(apierrors.NewUnauthorized("expired")), 502, "expired"},
		"an API server that fails":           {"/api/pods/default/web", "", rejectGet(apierrors.NewInternalError(errors.New("etcd"))), 502, "etcd"},
		"an API server that is overloaded":   {"/api/pods/default/web", "", rejectGet(apierrors.NewTooManyRequestsError("later")), 502, "later"},
		"an API server that times out":       {"/api/pods/default/web", "", rejectGet(apierrors.NewTimeoutError("slow", 1)), 504, "slow"},
		"an API server that is not reached":  {"/api/pods/default/web", "", rejectGet(&net.OpError{Op: "dial", Err: errors.New("refused")}), 502, "cannot reach the API server"},
		"the matrix of no pod":               {"/api/pods/default/none/matrix", "", nil, 404, "There is no pod default/none."},
		"the matrix of another scheduler":    {"/api/pods/default/foreign/matrix", "", nil, 422, `no SchedulingProfile is named "default-scheduler"`},
		"the matrix without the nodes":       {"/api/pods/default/web/matrix", "", rejectList("Node"), 403, "cannot list resource"},
		"the matrix without the pods":        {"/api/pods/default/web/matrix", "", rejectList("Pod"), 403, "cannot list resource"},
		"revisions of no profile":            {"/api/profiles/bacth/revisions", "", nil, 404, `did you mean "batch"?`},
		"a name that no profile has":         {"/api/profiles/a%20b/revisions", "", nil, 404, "no SchedulingProfile is named"},
		"no permission to list revisions":    {"/api/profiles/batch/revisions", "", rejectList("ControllerRevision"), 403, "in the namespace berth-system"},
		"no permission to list profiles":     {"/api/profiles/batch/revisions", "", rejectList("SchedulingProfile"), 403, "cannot list resource"},
		"a diff of no profile":               {"/api/profiles/bacth/diff?from=spec&to=spec", "", nil, 404, `did you mean "batch"?`},
		"a diff with an unknown revision":    {"/api/profiles/batch/diff?from=spec&to=0000000000", "", nil, 404, `No revision has the hash "0000000000".`},
		"a diff without from":                {"/api/profiles/batch/diff?to=" + hashOf(first), "", nil, 400, "from and to:"},
		"a diff without to":                  {"/api/profiles/batch/diff?from=" + hashOf(second), "", nil, 400, "from and to:"},
		"a manifest that is no YAML":         {"/api/try", "a: [", nil, 422, "standard input"},
		"a manifest without a pod":           {"/api/try", "{apiVersion: v1, kind: Service, metadata: {name: web}}", nil, 422, "no Pod and no workload"},
		"replicas that are no number":        {"/api/try?replicas=many", podYAML, nil, 400, `replicas: Invalid value: "many"`},
		"too many replicas":                  {"/api/try?replicas=1000000", podYAML, nil, 422, "--replicas: Invalid value"},
		"a profile that does not exist":      {"/api/try?profile=bacth", podYAML, nil, 422, `did you mean "batch"?`},
		"a node that does not exist":         {"/api/try?without-node=n9", podYAML, nil, 422, `node "n9" not found`},
		"a manifest without a right to read": {"/api/try", podYAML, rejectList("Node"), 403, "cannot list resource"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t, queryObjects()...)
			if c.prepare != nil {
				c.prepare(e)
			}
			method := http.MethodGet
			if c.body != "" {
				method = http.MethodPost
			}
			w := e.respond(e.request(method, c.target, c.body))
			sentence, _ := fromJSON(t, w.Body.Bytes())["error"].(string)
			if w.Code != c.status || !strings.Contains(sentence, c.want) {
				t.Errorf("status %d, %q; want %d and %q", w.Code, sentence, c.status, c.want)
			}
			checkHeaders(t, w)
		})
	}
}
