package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/berthdev/berth/scheduler/leadership"
)

// client is the clientset of one process. It has the methods that Berth calls for pods; any
// other call is a nil dereference, which fails the seed.
type client struct {
	clientset.Interface
	corev1.CoreV1Interface
	sim     *simulation
	process int
}

func (c *client) CoreV1() corev1.CoreV1Interface { return c }

func (c *client) Pods(namespace string) corev1.PodInterface {
	return &podClient{sim: c.sim, process: c.process, namespace: namespace}
}

type podClient struct {
	corev1.PodInterface
	sim       *simulation
	process   int
	namespace string
}

func (c *podClient) Bind(ctx context.Context, b *v1.Binding, _ metav1.CreateOptions) error {
	what := fmt.Sprintf("bind %s (version %s) to %s", keyOf(b), b.ResourceVersion, b.Target.Name)
	c.sim.bindingsSent[b.UID]++
	c.sim.checkGangBinding(c.sim.ourPods[b.UID])
	commit, kind := c.sim.bindCommit(c.process, b)
	_, err := c.sim.call(ctx, "bind", what+kind, commit)
	return err
}

func (c *podClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.Pod, error) {
	key := c.namespace + "/" + name
	pod, err := c.sim.call(ctx, "get", "get "+key, func() (*v1.Pod, error) { return c.sim.server.get(key) })
	if there := c.sim.server.pods[key]; isRefusal(err) && there != nil {
		// After a conflict the status is read before it is patched again.
		c.sim.unwritable[there.UID] = true
	}
	return pod, err
}

func (c *podClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.Pod, error) {
	key := c.namespace + "/" + name
	patch, err := readPatch(data)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("patch the status of %s: %s", key, patch)
	pod, err := c.sim.call(ctx, "patch", what, func() (*v1.Pod, error) { return c.sim.server.patchStatus(key, patch) })
	if isRefusal(err) && patch.nominates {
		c.sim.unwritable[types.UID(patch.Metadata.UID)] = true
	}
	return pod, err
}

// readPatch fails for a status field that the model does not store.
func readPatch(data []byte) (statusPatch, error) {
	var p statusPatch
	var raw struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return p, err
	}
	for field := range raw.Status {
		if field != "nominatedNodeName" && field != "conditions" {
			return p, fmt.Errorf("the model knows no status.%s", field)
		}
	}
	_, p.nominates = raw.Status["nominatedNodeName"]
	return p, json.Unmarshal(data, &p)
}

func (p statusPatch) String() string {
	text := ""
	for _, c := range p.Status.Conditions {
		text += c.Reason + " " + c.Message
	}
	if p.nominates && p.Status.NominatedNodeName != nil {
		text += " nominated for " + *p.Status.NominatedNodeName
	} else if p.nominates {
		text += " nominated for none"
	}
	return text
}

// isRefusal says that a request is not repeated.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || errors.Is(err, leadership.ErrNotLeading)
}

// errLost is what a client gets when a connection breaks.
var errLost = errors.New("the connection was lost")

// request is one call of the API server.
type request struct {
	verb, description string
	commit            func() (*v1.Pod, error)
	// arrived says that the server has processed it; answered, that the caller has the
	// response.
	arrived, answered bool
	// held says that it does not arrive before the next leader has placed a pod, or, where it is a
	// status, has reported.
	held bool
	// heldUntil is the step at which it arrives nevertheless.
	heldUntil int
	// replica is the sender, and epoch its leader epoch.
	replica *replica
	epoch   int64
	sentAt  time.Time
	// retryAfter says that client-go sends it again, after the time in the response.
	retryAfter bool
	// about is the UID of the object that it changes; empty where nobody asks for it.
	about types.UID
	pod   *v1.Pod
	err   error
}

// call sends a request and waits for its response. The product must not cancel it: ctx may
// only have a deadline, which is one of real time and is ignored.
func (sim *simulation) call(ctx context.Context, verb, what string, commit func() (*v1.Pod, error)) (*v1.Pod, error) {
	if sim.election != nil {
		return sim.callThroughTransport(ctx, exchange{verb: verb, what: what, commit: commit})
	}
	r := sim.send(verb, what, commit)
	sim.await(ctx, r)
	return r.pod, r.err
}

// await waits for the response to a request.
func (sim *simulation) await(ctx context.Context, r *request) {
	sim.tasks.yield(func() bool { return r.answered })
	if errors.Is(ctx.Err(), context.Canceled) {
		sim.failf("%q is cancelled by its caller", r.description)
	}
}

// send sends a request of the task that runs.
func (sim *simulation) send(verb, what string, commit func() (*v1.Pod, error)) *request {
	r := &request{verb: verb, description: what, commit: commit, replica: sim.replica, epoch: sim.leaderEpoch(), sentAt: sim.clock.now}
	sim.requests = append(sim.requests, r)
	sim.logf("%s: %s", sim.tasks.current.name, what)
	return r
}

// outcome is how a request ends that does not succeed.
type outcome struct {
	name string
	// commits says that the write is committed; late, that it may be committed after the
	// caller has given up.
	commits, late bool
	// err is what the caller gets.
	err error
	// retryAfter says that the response has the header Retry-After.
	retryAfter bool
	// writesOnly says that only a write of a pod ends so.
	writesOnly bool
}

// committedLater is the outcome of a request that outlives its connection.
var committedLater = outcome{name: "fails for its caller and may be committed later", late: true, err: errLost}

var outcomes = []outcome{
	{name: "is committed and its response is lost", commits: true, err: errLost},
	{name: "is lost", err: errLost},
	committedLater,
	{name: "is committed and answered with 500", commits: true, err: apierrors.NewInternalError(errLost)},
	{name: "is answered with 500", err: apierrors.NewInternalError(errLost)},
	{name: "is answered with 429", err: apierrors.NewTooManyRequests("later", 1)},
	{name: "is answered with a conflict that is none", err: apierrors.NewConflict(podResource, "", errLost)},
	{name: "times out in the server", commits: true, err: apierrors.NewTimeoutError("slow", 1)},
	{name: "is forbidden", err: apierrors.NewForbidden(podResource, "", errLost)},
}

// arrive lets the server process r, or lets it fail.
func (sim *simulation) arrive(r *request) {
	r.arrived = true
	planned, isPlanned := sim.plannedOutcome(r.verb)
	if isPlanned || !sim.healed && sim.chance(sim.faultChance(r.verb)) {
		f := sim.settings.outcomes[sim.random.IntN(len(sim.settings.outcomes))]
		if frequent, ok := sim.settings.frequentOutcomes[r.verb]; ok && sim.chance(0.7) {
			f = frequent
		}
		if isPlanned {
			f = planned
		}
		if f.writesOnly && !isPodWrite(r.verb) {
			f = committedLater
		}
		sim.count(r.verb + " " + f.name)
		sim.logf("server: %q %s", r.description, f.name)
		if f.commits {
			_, _ = r.commit()
		}
		if f.late {
			sim.lateWrites = append(sim.lateWrites, r)
		}
		r.err, r.retryAfter = f.err, f.retryAfter
		return
	}
	r.pod, r.err = r.commit()
	if r.err != nil {
		sim.count(r.verb + " refused")
		sim.logf("server: %q refused: %v", r.description, r.err)
	} else {
		sim.count(r.verb + " done")
		sim.logf("server: %q done", r.description)
	}
}

// answer returns the response to the caller.
func (sim *simulation) answer(i int) {
	sim.requests[i].answered = true
	sim.requests = append(sim.requests[:i:i], sim.requests[i+1:]...)
}

// commitLate commits a write whose caller has given up, or drops it.
func (sim *simulation) commitLate(i int) {
	r := sim.lateWrites[i]
	sim.lateWrites = append(sim.lateWrites[:i:i], sim.lateWrites[i+1:]...)
	if sim.chance(0.2) || sim.isTooOld(r) {
		sim.logf("server: %q never arrives", r.description)
		return
	}
	_, err := r.commit()
	if err == nil {
		sim.count("late " + r.verb + " done")
	} else {
		sim.count("late " + r.verb + " refused")
	}
	sim.logf("server: %q arrives late: %v", r.description, err)
}
