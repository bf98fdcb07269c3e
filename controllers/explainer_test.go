package controllers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

var (
	errUnserved = apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{}, "", "404 page not found", 0, true)
	errBroken   = apierrors.NewInternalError(errors.New("etcd is away"))
	errQuota    = apierrors.NewForbidden(schema.GroupResource{Resource: schedulingDecisions}, "web", errors.New("exceeded quota"))
	errNoShop   = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
)

func TestExplainer(t *testing.T) {
	web, db := aPod("web"), aPod("db")
	for sentence, play := range map[string]func(t *testing.T, o *office){
		"one request writes one explanation": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			o.want(t, "POST shop")
			o.holds(t, "shop/web", "why of web")
		},
		"other reasons are written a minute later, in one request": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			o.explain(web, "why else", time.Minute)
			o.want(t, "POST shop", "PATCH shop/web")
			o.holds(t, "shop/web", "why else of web")
		},
		"an object that is in the way is written to when it is about the pod": func(t *testing.T, o *office) {
			o.stand("web", "web")
			o.explain(web, "why", time.Second)
			o.want(t, "POST shop", "GET shop/web", "PATCH shop/web")
			o.holds(t, "shop/web", "why of web")
		},
		"and is replaced when it is about another": func(t *testing.T, o *office) {
			o.stand("web", "old")
			o.explain(web, "why", time.Second)
			o.want(t, "POST shop", "GET shop/web", "DELETE shop/web", "POST shop")
			o.holds(t, "shop/web", "why of web")
		},
		"an object that became another's is not written to": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			o.stand("web", "old")
			o.explain(web, "why else", time.Minute)
			o.want(t, "POST shop", "PATCH shop/web", "GET shop/web", "DELETE shop/web", "POST shop")
			o.holds(t, "shop/web", "why else of web")
		},
		"an object that somebody deleted is made again": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			delete(o.objects, "shop/web")
			o.explain(web, "why else", time.Minute)
			o.want(t, "POST shop", "PATCH shop/web", "POST shop")
			o.holds(t, "shop/web", "why else of web")
		},
		"a bound pod's goes a minute later": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			o.desk.Bound("shop", "web", "web")
			pass(time.Minute - time.Second)
			o.want(t, "POST shop")
			pass(time.Second)
			o.want(t, "DELETE shop/web")
		},
		"somebody else's is not deleted": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			o.stand("web", "new")
			o.desk.Gone("shop", "web", "web")
			pass(time.Second)
			o.want(t, "POST shop", "DELETE shop/web", "GET shop/web")
			o.holds(t, "shop/web", " of new")
		},
		"a pod that is gone or bound already is not explained": func(t *testing.T, o *office) {
			must(o.pods.Update(boundPod("web", time.Now())))
			must(o.pods.Delete(db))
			o.explain(web, "why", 0)
			o.explain(db, "why", time.Second)
			o.want(t)
		},
		"when asked to wait it waits, and loses nothing": func(t *testing.T, o *office) {
			o.answering(func(*http.Request, func()) error { return apierrors.NewTooManyRequests("later", 7) })
			o.explain(web, "why", 0)
			o.explain(db, "why", 7*time.Second-time.Millisecond)
			o.want(t, "POST shop")
			o.answering(nil)
			pass(time.Second)
			o.want(t, "POST shop", "POST shop")
		},
		"an API server that fails is asked less and less": func(t *testing.T, o *office) {
			o.answering(func(*http.Request, func()) error { return errBroken })
			o.explain(web, "why", time.Minute)
			o.want(t, strings.Split("POST shop,POST shop,POST shop,POST shop,POST shop,POST shop", ",")...)
			o.answering(nil)
			pass(longestPause)
			o.holds(t, "shop/web", "why of web")
		},
		"an answer that never came is no second object": func(t *testing.T, o *office) {
			o.answering(func(_ *http.Request, carryOut func()) error { carryOut(); return errors.New("connection reset") })
			o.explain(web, "why", 0)
			o.answering(nil)
			pass(5 * time.Second)
			o.want(t, "POST shop", "POST shop", "GET shop/web", "PATCH shop/web")
			o.holds(t, "shop/web", "why of web")
		},
		"a namespace that goes is counted, and not asked again": func(t *testing.T, o *office) {
			o.answering(func(r *http.Request, _ func()) error {
				if strings.Contains(r.URL.Path, "/shop/") {
					return errNoShop
				}
				return nil
			})
			o.explain(web, "why", time.Hour)
			o.want(t, "POST shop")
			if o.dropped != 1 {
				t.Errorf("%d are counted as dropped, want 1", o.dropped)
			}
		},
		"what is wrong with one keeps no other waiting": func(t *testing.T, o *office) {
			o.answering(func(r *http.Request, _ func()) error {
				if strings.Contains(body(r), `"name":"web"`) {
					return errQuota
				}
				return nil
			})
			o.explain(web, "why", 0)
			o.explain(db, "why", time.Second)
			o.holds(t, "shop/db", "why of db")
			o.want(t, "POST shop", "POST shop")
			o.answering(nil)
			pass(time.Minute)
			o.holds(t, "shop/web", "why of web")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, openOffice(t, newShelf(), web.DeepCopy(), db.DeepCopy())) })
		})
	}
}

func TestExplainerKeepsItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 1000
		o := openOffice(t, newShelf())
		for i := range crowd {
			pod := aPod(fmt.Sprint("web-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		pass(crowd * explanationInterval)
		if len(o.objects) != crowd {
			t.Errorf("%d of %d are explained", len(o.objects), crowd)
		}
		for i, at := range o.times {
			if i >= 20 && at.Sub(o.times[i-20]) < time.Second {
				t.Fatalf("21 writes within %v", at.Sub(o.times[i-20]))
			}
		}
	})
}

func TestExplainerKnowsWhatWasThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		waiting, placed, longPlaced := aPod("waiting"), boundPod("placed", time.Now().Add(-time.Minute/2)), boundPod("long-placed", time.Now().Add(-time.Hour))
		for _, object := range [][2]string{{"waiting", "waiting"}, {"placed", "placed"}, {"long-placed", "long-placed"}, {"gone", "gone"}, {"again", "old"}} {
			shelf.stand(object[0], types.UID(object[1]))
		}
		again := aPod("again")
		o := openOffice(t, shelf, waiting, placed, longPlaced, again)
		pass(time.Second)
		o.names(t, "placed", "waiting")
		o.explain(waiting, "why", time.Second)
		o.holds(t, "shop/waiting", " of waiting")
		o.explain(again, "why", time.Second)
		o.holds(t, "shop/again", "why of again")
		pass(time.Minute)
		o.holds(t, "shop/waiting", "why of waiting")
		o.names(t, "again", "waiting")
	})
}

func TestExplainerWaitsUntilItsObjectsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		shelf.answer = func(*http.Request, func()) error { return errUnserved }
		web := aPod("web")
		o := openOffice(t, shelf, web)
		o.explain(web, "why", time.Minute)
		if asked := len(o.requests()); asked != int(time.Minute/unservedPause) {
			t.Errorf("asked %d times in a minute", asked)
		}
		o.answering(nil)
		pass(unservedPause)
		o.holds(t, "shop/web", "why of web")

		o.answering(func(*http.Request, func()) error { return errUnserved })
		o.explain(web, "why else", 2*time.Minute)
		delete(o.objects, "shop/web") // with their definition
		o.answering(nil)
		pass(unservedPause + time.Second)
		o.holds(t, "shop/web", "why else of web")
	})
}

func TestWhatATenantMayRead(t *testing.T) {
	e := decision.Explanation{Status: decision.Status{
		Rejections: []decision.Rejection{{Plugin: "P", Reason: "r", ExampleNode: "secret-node"}},
		Nearest:    []decision.NearMiss{{Node: "secret-node"}},
	}}
	for sentence, nodes := range map[string]bool{"detail: Reasons names no node": false, "detail: Nodes does": true} {
		t.Run(sentence, func(t *testing.T) {
			e := e
			e.Nodes = nodes
			text, err := json.Marshal(statusOf(&e, noon))
			must(err)
			if got := strings.Count(string(text), "secret-node"); got != map[bool]int{false: 0, true: 2}[nodes] {
				t.Errorf("named %d times: %s", got, text)
			}
		})
	}
	if e.Status.Rejections[0].ExampleNode == "" {
		t.Error("the explanation itself was changed")
	}
}

func TestAnExplanationFitsIntoItsObject(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	e := decision.Explanation{Nodes: true, Status: decision.Status{
		Message: long, BlockedBy: long, Profile: v1alpha1.DecidedBy{Name: long, Hash: long}, Queue: &decision.Queue{Gate: long},
	}}
	for i := range 100 {
		e.Status.Rejections = append(e.Status.Rejections, decision.Rejection{Plugin: long, Code: "Pending", Reason: long, Nodes: int32(100 - i), ExampleNode: long})
		e.Status.Nearest = append(e.Status.Nearest, decision.NearMiss{Node: long})
		e.Status.WakesOn = append(e.Status.WakesOn, decision.WakesOn{Plugin: long})
	}
	e.Status.Nearest[0].Missing = []decision.Missing{{Resource: long, Requested: long, Free: long, Plugin: long, Reason: long}}
	s := statusOf(&e, noon)
	if got, want := s.Rejections[len(s.Rejections)-1], (v1alpha1.Rejection{Code: "Pending", Reason: "37 more reasons", Nodes: 37}); got != want {
		t.Errorf("the last reason is %+v, want %+v", got, want)
	}
	got := map[string]int{
		"rejections": len(s.Rejections), "nearest": len(s.Nearest), "wakesOn": len(s.WakesOn),
		"message": len(s.Message), "since": int(s.Queue.Since.Sub(noon)), "resource": len(s.Nearest[0].Missing[0].Resource),
	}
	want := map[string]int{"rejections": 64, "nearest": 10, "wakesOn": 64, "message": 4095, "since": 0, "resource": 317}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(s)
	must(err)
	if strings.Contains(string(text), "null") || strings.Contains(string(text), "\ufffd") {
		t.Error("a list is null, or a character was cut in two")
	}
}

// body is what a request carries. It can be read again.
func body(r *http.Request) string {
	text, err := io.ReadAll(r.Body)
	must(err)
	r.Body = io.NopCloser(bytes.NewReader(text))
	return string(text)
}

// want holds the requests since the last call to a list.
func (o *office) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, o.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func (o *office) holds(t *testing.T, name, want string) {
	t.Helper()
	if got := o.says(name); got != want {
		t.Errorf("%s says %q, want %q", name, got, want)
	}
}

// names holds the objects that are there to a list, in the order of names.
func (o *office) names(t *testing.T, want ...string) {
	t.Helper()
	for _, name := range want {
		if o.objects["shop/"+name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	if len(o.objects) != len(want) {
		t.Errorf("%d objects, want %d", len(o.objects), len(want))
	}
}

// stand puts an object there that is about owner.
func (s *shelf) stand(name string, owner types.UID) {
	s.born++
	s.objects["shop/"+name] = &v1alpha1.SchedulingDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(fmt.Sprint("object-", s.born)), CreationTimestamp: metav1.NewTime(time.Now()),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: owner}},
	}}
}
