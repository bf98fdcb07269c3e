package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/queue"
)

// In a history of explanations the explainer that Berth ships writes SchedulingDecisions, through
// a model of the API server's REST interface with faults of its own. Where the history is
// quiescent, each pending pod is explained truly within explanationBudget, and no other pod is;
// no explanation and no annotation ever names a node that its profile does not let it name, or a
// pod of another namespace.

// explanationBudget is how long an explanation may be untrue after the last change: a minute
// between two writes of one object, a minute after an error, and half a minute of backoff.
const explanationBudget = 3 * time.Minute

// writeExplanation is the verb of the explainer's requests.
const writeExplanation = "explain"

// explanations is the state of a history's explanations.
type explanations struct {
	// on says that this is a history of explanations.
	on bool
	// faults is the probability that a request fails.
	faults float64
	// quietSince is when nothing but explanations was left to do; zero before that.
	quietSince time.Time
}

func (sim *simulation) drawExplanations() {
	sim.explanations = explanations{on: true}
	sim.controllerWeight = 1 + sim.random.IntN(8)
	if sim.random.IntN(3) > 0 {
		sim.explanations.faults = sim.random.Float64() * 0.5
	}
}

// newExplanations returns the explanation queue of a process; nil where no pod is explained.
func (sim *simulation) newExplanations(ledger *decision.Ledger) *explain.Queue {
	if !sim.explanations.on {
		return nil
	}
	return explain.NewQueue(sim.clock.Now, ledger)
}

// startExplainer starts the explainer of a process.
func (sim *simulation) startExplainer(explained *explain.Queue) {
	if explained == nil {
		return
	}
	config := &restclient.Config{Host: "http://simulation", Transport: decisionServer{sim: sim, process: sim.process}, APIPath: "/apis", QPS: -1}
	config.GroupVersion, config.NegotiatedSerializer = &v1alpha1.GroupVersion, clientgoscheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	client, err := restclient.RESTClientFor(config)
	sim.requireNoError(err)
	pods := sim.podInformer()
	x := explainer.New(explainer.Options{
		Queue: explained, Client: client, Pods: podLister{informer: pods}, PodsSynced: func() bool { return pods.handler != nil && pods.HasSynced() },
		Clock: sim.clock, Wait: sim.pause,
		BindsInProgress: func() bool {
			return slices.ContainsFunc(sim.requests, func(r *request) bool { return r.verb == "bind" })
		},
	})
	sim.tasks.start("explainer", func() { sim.requireNoError(x.Start(log.IntoContext(context.Background(), logr.Discard()))) })
}

// pause waits for some time, or until wake has a value; for wake alone where the time is an hour,
// to which the clock must not jump. quiescent does not wait for it.
func (sim *simulation) pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	until := sim.clock.now.Add(max(d, 0))
	if wake == nil || d < time.Hour {
		waiter := sim.clock.add(until, func() {})
		waiter.periodic = true
		defer sim.clock.remove(waiter)
	}
	sim.tasks.yield(func() bool { return !sim.clock.now.Before(until) || len(wake) > 0 })
	if len(wake) > 0 {
		<-wake
	}
	return ctx.Err() == nil
}

// decisionServer is the REST interface of SchedulingDecisions for one process. Changes and deletions
// that it has sent do not arrive any more once the next leader has begun: they are not fenced.
type decisionServer struct {
	sim     *simulation
	process int
}

// RoundTrip sends a request to the model of the API server.
func (s decisionServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/berth.dev/v1alpha1/"), "namespaces/")
	name = strings.Replace(strings.Replace(name, "/schedulingdecisions", "", 1), "schedulingdecisions", "", 1)
	var answer any
	err := s.sim.callOrCancel(r.Context(), writeExplanation, "explanations: "+r.Method+" "+name, "", func() (err error) {
		if s.process < s.sim.process {
			if r.Method != http.MethodPost {
				return errLost
			}
			s.sim.count("an explanation of an earlier leader arrives late")
		}
		f, fails := s.sim.explanationFault()
		if !fails || f.commits || f.late && s.sim.chance(0.5) {
			answer, err = s.serve(r, name, body)
		}
		if fails {
			return f.err
		}
		return err
	})
	if err == nil {
		return response(http.StatusOK, answer), nil
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return nil, err
	}
	return response(int(status.ErrStatus.Code), status.ErrStatus), nil
}

// explanationFault draws how a request ends that does not succeed.
func (sim *simulation) explanationFault() (f outcome, fails bool) {
	if sim.healed || !sim.chance(sim.explanations.faults) {
		return f, false
	}
	f = outcomes[sim.random.IntN(len(outcomes))]
	sim.count(writeExplanation + " " + f.name)
	return f, true
}

func response(code int, body any) *http.Response {
	if status, is := body.(metav1.Status); is {
		status.Kind, status.APIVersion = "Status", "v1"
		body = status
	}
	text, _ := json.Marshal(body)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}

// serve does what a request asks for.
func (s decisionServer) serve(r *http.Request, name string, body []byte) (any, error) {
	method := r.Method
	resource := schema.GroupResource{Group: "berth.dev", Resource: "schedulingdecisions"}
	existing := find[*v1alpha1.SchedulingDecision](s.sim.server, name)
	switch {
	case method == http.MethodPost:
		object := &v1alpha1.SchedulingDecision{}
		if err := json.Unmarshal(body, object); err != nil {
			return nil, err
		}
		if find[*v1alpha1.SchedulingDecision](s.sim.server, keyOf(object)) != nil {
			return nil, apierrors.NewAlreadyExists(resource, object.Name)
		}
		object.UID = types.UID("e" + itoa(s.sim.server.version))
		object.CreationTimestamp = metav1.NewTime(s.sim.clock.now)
		return s.store(object), nil
	case method == http.MethodGet && name == "":
		list := &v1alpha1.SchedulingDecisionList{}
		for _, object := range all[*v1alpha1.SchedulingDecision](s.sim.server) {
			object = object.DeepCopy()
			if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
				object.Status = v1alpha1.SchedulingDecisionStatus{}
			}
			list.Items = append(list.Items, *object)
		}
		return list, nil
	case existing == nil:
		return nil, apierrors.NewNotFound(resource, name)
	case method == http.MethodGet:
		return metav1.PartialObjectMetadata{ObjectMeta: existing.ObjectMeta}, nil
	case method == http.MethodPatch:
		var patch [2]struct{ Value json.RawMessage }
		if err := json.Unmarshal(body, &patch); err != nil {
			return nil, err
		}
		if want := fmt.Sprintf("%q", existing.OwnerReferences[0].UID); string(patch[0].Value) != want {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value failed", 0, false)
		}
		changed := existing.DeepCopy()
		changed.Status = v1alpha1.SchedulingDecisionStatus{}
		if err := json.Unmarshal(patch[1].Value, &changed.Status); err != nil {
			return nil, err
		}
		return s.store(changed), nil
	default:
		var options metav1.DeleteOptions
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, err
		}
		if *options.Preconditions.UID != existing.UID {
			return nil, apierrors.NewConflict(resource, name, errors.New("the UID is another"))
		}
		s.sim.count("an explanation is deleted")
		s.sim.server.drop(existing)
		return metav1.PartialObjectMetadata{ObjectMeta: existing.ObjectMeta}, nil
	}
}

// store checks and stores an object, and returns its metadata.
func (s decisionServer) store(object *v1alpha1.SchedulingDecision) metav1.PartialObjectMetadata {
	sim := s.sim
	sim.count("an explanation is written: " + string(object.Status.Result))
	text, _ := json.Marshal(object.Status)
	sim.checkNames("the explanation of "+keyOf(object), string(text), sim.specs[sim.specOf[object.Status.Profile.Hash]], "")
	sim.server.put(object)
	sim.logf("server: explanation of %s (UID %s): %s, %s", keyOf(object), object.OwnerReferences[0].UID, object.Status.Result, object.Status.Message)
	return metav1.PartialObjectMetadata{ObjectMeta: object.ObjectMeta}
}

// nodeNames and foreignPods are the names of nodes and of the pods in the namespace system.
var (
	nodeNames   = regexp.MustCompile(`\bn\d+\b`)
	foreignPods = regexp.MustCompile(`\bd\d{1,5}\b`)
)

// checkNames checks what users of a namespace may read: it names no pod of another namespace, and
// no node but one, unless the profile's detail is Nodes. A profile that does not run is nil.
func (sim *simulation) checkNames(what, text string, spec *profileSpec, node string) {
	for _, name := range foreignPods.FindAllString(text, -1) {
		if !sim.wasDeleted(name) {
			sim.failf("%s names pod %s of another namespace: %s", what, name, text)
		}
	}
	if spec != nil && spec.namesNodes {
		sim.count("an explanation may name nodes")
		return
	}
	for _, name := range nodeNames.FindAllString(text, -1) {
		if name != node && !sim.wasDeleted(name) {
			sim.failf("%s names node %s: %s", what, name, text)
		}
	}
}

// wasDeleted says whether a node or pod of that name was ever deleted, or has ended. Berth redacts the
// names of those that the informer has, and an attempt may have seen one that is gone meanwhile.
func (sim *simulation) wasDeleted(name string) bool {
	return slices.ContainsFunc(sim.server.log, func(c change) bool {
		_, isPod := c.new.(*v1.Pod)
		return c.old != nil && c.old.GetName() == name && (c.new == nil || isPod && !isLivePod(c.new))
	})
}

// checkAnnotation checks what the annotation of a bound pod names.
func (sim *simulation) checkAnnotation(pod *v1.Pod, d placement) {
	if sim.explanations.on {
		sim.checkNames("the annotation of "+describe(pod), pod.Annotations[v1alpha1.AnnotationDecision], sim.specs[d.spec], pod.Spec.NodeName)
	}
}

// refusal is the reason with which Probe refuses a node. An out-of-tree plugin names what users
// must not read, which Berth redacts.
func (sim *simulation) refusal(node *v1.Node) string {
	reason := "the tier is another"
	if !sim.explanations.on || !sim.settings.outOfTree {
		return reason
	}
	reason += " on " + node.Name
	for _, pod := range sim.server.sorted {
		if foreignPods.MatchString(pod.Name) && sim.podInformer().store[keyOf(pod)] != nil {
			sim.count("a reason names a pod of another namespace")
			return reason + ", where " + keyOf(pod) + " is"
		}
	}
	return reason
}

// explanationSteps deletes the explanations of pods that are gone, as the garbage collector does.
func (sim *simulation) explanationSteps() (steps []func()) {
	for _, object := range all[*v1alpha1.SchedulingDecision](sim.server) {
		if pod := sim.server.pods[keyOf(object)]; pod == nil || pod.UID != object.OwnerReferences[0].UID {
			steps = append(steps, func() {
				sim.count("an explanation is deleted with its pod")
				sim.server.drop(object)
			})
		}
	}
	return steps
}

// explained says, where nothing else is left to do, whether all explanations are true. It fails
// where they are not within explanationBudget.
func (sim *simulation) explained() bool {
	if !sim.explanations.on {
		return true
	}
	return sim.isTrueWithin(explanationBudget, &sim.explanations.quietSince, sim.untrueExplanation())
}

// isTrueWithin says whether nothing is untrue, which why names. It fails where that lasts for
// longer than budget since nothing else is left to do: quietSince, which it sets.
func (sim *simulation) isTrueWithin(budget time.Duration, quietSince *time.Time, why string) bool {
	if quietSince.IsZero() {
		*quietSince = sim.clock.now
	}
	if why != "" && sim.clock.now.Sub(*quietSince) > budget {
		sim.failf("%v after the last change %s", budget, why)
	}
	return why == ""
}

// untrueExplanation names an explanation that is missing, not true or about no pending pod.
func (sim *simulation) untrueExplanation() string {
	places := sim.sched.Components().Queue.Places()
	for _, pod := range sim.server.sorted {
		object := find[*v1alpha1.SchedulingDecision](sim.server, keyOf(pod))
		p := sim.profileOf(pod)
		switch {
		case p == nil || p.running == nil, pod.DeletionTimestamp != nil:
			continue // its last explanation stays, or it has none
		case !isPending(pod) || p.running.silent:
			if object != nil {
				return fmt.Sprintf("%s is bound, or its profile explains nothing, and is explained: %s", describe(pod), object.Status.Result)
			}
			continue
		case object == nil:
			return fmt.Sprintf("%s is %s, and is not explained", describe(pod), places[pod.UID])
		case object.OwnerReferences[0].UID != pod.UID:
			return fmt.Sprintf("the explanation of %s is about another pod", describe(pod))
		}
		if why := contradicts(&object.Status, places[pod.UID]); why != "" {
			return fmt.Sprintf("%s is %s, and its explanation says %s", describe(pod), places[pod.UID], why)
		}
		sim.count("an explanation is true: " + string(object.Status.Result))
	}
	return ""
}

// contradicts says what an explanation has that is not true of a pod at a place in the queue.
func contradicts(s *v1alpha1.SchedulingDecisionStatus, place queue.Place) string {
	results := map[queue.Place][]v1alpha1.DecisionResult{
		queue.Unschedulable: {v1alpha1.ResultUnschedulable, v1alpha1.ResultPreempting},
		queue.Gated:         {v1alpha1.ResultGated, v1alpha1.ResultPreempting},
		queue.Held:          {v1alpha1.ResultHeld, v1alpha1.ResultQuarantined},
	}
	switch {
	case !slices.Contains(results[place], s.Result):
		return string(s.Result)
	case len(s.Rejections) > 0 && s.Queue != nil && s.Queue.Where != string(place):
		return "that it is " + s.Queue.Where
	}
	return ""
}

// requiredExplanationEvents are what a thousand seeds of histories of explanations must have seen.
func requiredExplanationEvents() []string {
	required := []string{
		"an explanation is deleted", "an explanation is deleted with its pod", "an explanation may name nodes",
		"a reason names a pod of another namespace", "a swap", "event FailedScheduling", leaderReplaced,
		"an explanation of an earlier leader arrives late",
	}
	for _, result := range []v1alpha1.DecisionResult{
		v1alpha1.ResultUnschedulable, v1alpha1.ResultGated, v1alpha1.ResultHeld, v1alpha1.ResultWaitingOnPermit, v1alpha1.ResultPreempting, v1alpha1.ResultError,
	} {
		required = append(required, "an explanation is written: "+string(result))
	}
	for _, f := range outcomes {
		required = append(required, writeExplanation+" "+f.name)
	}
	return required
}
