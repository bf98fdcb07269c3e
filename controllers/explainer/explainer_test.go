package explainer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
)

var (
	errUnserved    = apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{}, "", "404 page not found", 0, true)
	errBroken      = apierrors.NewInternalError(errors.New("etcd is away"))
	errQuota       = apierrors.NewForbidden(schema.GroupResource{Resource: schedulingDecisions}, "web", errors.New("exceeded quota"))
	errNoNamespace = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
)

func TestExplainer(t *testing.T) {
	web, db := newPod("web"), newPod("db")
	for name, play := range map[string]func(t *testing.T, o *testEnv){
		"an explanation is written by one request": func(t *testing.T, o *testEnv) {
			o.explain(web, "why", time.Second)
			o.wantRequests(t, "POST shop")
			o.wantMessage(t, "shop/web", "why of web")
		},
		"new reasons are written a minute later, by one request": func(t *testing.T, o *testEnv) {
			o.explain(web, "why", time.Second)
			o.explain(web, "why else", time.Minute)
			o.wantRequests(t, "POST shop", "PATCH shop/web")
			o.wantMessage(t, "shop/web", "why else of web")
		},
		"an existing object of the same pod is updated": func(t *testing.T, o *testEnv) {
			o.addObject("web", "web")
			o.explain(web, "why", time.Second)
			o.wantRequests(t, "POST shop", "GET shop/web", "PATCH shop/web")
			o.wantMessage(t, "shop/web", "why of web")
		},
		"an existing object of another pod is replaced": func(t *testing.T, o *testEnv) {
			o.addObject("web", "old")
			o.explain(web, "why", time.Second)
			o.wantRequests(t, "POST shop", "GET shop/web", "DELETE shop/web", "POST shop")
			o.wantMessage(t, "shop/web", "why of web")
		},
		"an object that now belongs to another pod is replaced": func(t *testing.T, o *testEnv) {
			advance(time.Second)
			o.explain(web, "why", time.Second)
			o.explain(web, "why else", 59*time.Second-time.Millisecond)
			o.addObject("web", "old") // since the objects were listed last
			advance(time.Second)
			o.wantRequests(t, "POST shop", "PATCH shop/web", "GET shop/web", "DELETE shop/web", "POST shop")
			o.wantMessage(t, "shop/web", "why else of web")
		},
		"an object to which a webhook adds another owner before the pod is updated": func(t *testing.T, o *testEnv) {
			o.addObject("web", "web", func(object *v1alpha1.SchedulingDecision) {
				object.OwnerReferences = append([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "set"}}, object.OwnerReferences...)
			})
			o.explain(web, "why", time.Second)
			o.wantRequests(t, "POST shop", "GET shop/web", "PATCH shop/web")
			o.wantMessage(t, "shop/web", "why of web")
			o.explain(web, "why else", time.Minute)
			o.wantRequests(t, "PATCH shop/web", "GET shop/web", "PATCH shop/web")
			o.wantMessage(t, "shop/web", "why else of web")
		},
		"an object that another client deleted is created again": func(t *testing.T, o *testEnv) {
			o.explain(web, "why", time.Second)
			o.remove("shop/web")
			o.explain(web, "why else", time.Minute)
			o.wantRequests(t, "POST shop", "PATCH shop/web", "POST shop")
			o.wantMessage(t, "shop/web", "why else of web")
		},
		"the object of a bound pod is deleted at once": func(t *testing.T, o *testEnv) {
			o.explain(web, "why", time.Second)
			o.wantRequests(t, "POST shop")
			o.queue.PodBound("shop", "web", "web")
			advance(0)
			o.wantRequests(t, "DELETE shop/web")
		},
		"the object of another pod is not deleted": func(t *testing.T, o *testEnv) {
			o.explain(web, "why", time.Second)
			o.addObject("web", "new")
			o.queue.PodDeleted("shop", "web", "web")
			advance(time.Second)
			o.wantRequests(t, "POST shop", "DELETE shop/web", "GET shop/web")
			o.wantMessage(t, "shop/web", " of new")
		},
		"a pod that is deleted or bound already is not explained": func(t *testing.T, o *testEnv) {
			must(o.pods.Update(newBoundPod("web", time.Now())))
			must(o.pods.Delete(db))
			o.explain(web, "why", 0)
			o.explain(db, "why", time.Second)
			o.wantRequests(t)
		},
		"a Retry-After is obeyed, and nothing is lost": func(t *testing.T, o *testEnv) {
			o.respondWith(func(*http.Request, func()) error { return apierrors.NewTooManyRequests("later", 7) })
			o.explain(web, "why", 0)
			o.explain(db, "why", 7*time.Second-time.Millisecond)
			o.wantRequests(t, "POST shop")
			o.respondWith(nil)
			advance(time.Second)
			o.wantRequests(t, "POST shop", "POST shop")
		},
		"requests to a failing API server become less frequent": func(t *testing.T, o *testEnv) {
			o.respondWith(func(r *http.Request, _ func()) error {
				if r.Method == http.MethodGet {
					return nil
				}
				return errBroken
			})
			o.explain(web, "why", time.Minute)
			o.wantRequests(t, strings.Split("POST shop,POST shop,POST shop,POST shop,POST shop,POST shop", ",")...)
			o.respondWith(nil)
			advance(maxBackoff)
			o.wantMessage(t, "shop/web", "why of web")
		},
		"a lost response causes no second object": func(t *testing.T, o *testEnv) {
			o.respondWith(func(_ *http.Request, carryOut func()) error { carryOut(); return errors.New("connection reset") })
			o.explain(web, "why", 0)
			o.respondWith(nil)
			advance(5 * time.Second)
			o.wantRequests(t, "POST shop", "POST shop", "GET shop/web", "PATCH shop/web")
			o.wantMessage(t, "shop/web", "why of web")
		},
		"an explanation in a deleted namespace is dropped, counted and not retried": func(t *testing.T, o *testEnv) {
			o.respondWith(func(r *http.Request, _ func()) error {
				if strings.Contains(r.URL.Path, "/shop/") {
					return errNoNamespace
				}
				return nil
			})
			o.explain(web, "why", time.Hour)
			o.wantRequests(t, "POST shop")
			if o.dropped != 1 {
				t.Errorf("%d are counted as dropped, want 1", o.dropped)
			}
		},
		"an error of one object does not delay others": func(t *testing.T, o *testEnv) {
			o.respondWith(func(r *http.Request, _ func()) error {
				if strings.Contains(bodyOf(r), `"name":"web"`) {
					return errQuota
				}
				return nil
			})
			o.explain(web, "why", 0)
			o.explain(db, "why", time.Second)
			o.wantMessage(t, "shop/db", "why of db")
			o.wantRequests(t, "POST shop", "POST shop")
			o.respondWith(nil)
			advance(time.Minute)
			o.wantMessage(t, "shop/web", "why of web")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newTestEnv(t, newFakeServer(), web.DeepCopy(), db.DeepCopy())) })
		})
	}
}

func TestExplainerWritesAtMostTwentyASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 1000
		o := newTestEnv(t, newFakeServer())
		for i := range pods {
			pod := newPod(fmt.Sprint("web-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		advance(pods * writeInterval)
		if n := len(o.names("")); n != pods {
			t.Errorf("%d of %d are explained", n, pods)
		}
		if d := o.shortestSpan(20); d < time.Second {
			t.Errorf("21 writes within %v", d)
		}
	})
}

func TestDueExplanationsAreWrittenAtShutdown(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		want  int
	}{
		// Less than a second, at whose end the twenty-first would be due too.
		"as many as the rate limit allows": {time.Second - time.Millisecond, 20},
		"none when another process leads":  {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newTestEnv(t, newFakeServer())
				o.finalWriteTime, o.beforeFinalWrites = c.limit, func() {
					for i := range 30 { // unschedulable while bindings were completed
						pod := newPod(fmt.Sprint("web-", i))
						must(o.pods.Add(pod))
						o.explain(pod, "why", 0)
					}
				}
				o.close()
				if n := len(o.names("")); n != c.want {
					t.Errorf("%d are explained, want %d", n, c.want)
				}
			})
		})
	}
}

func TestExplainerYieldsToBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 100
		o := newTestEnv(t, newFakeServer())
		o.binding.Store(true)
		for i := range pods {
			pod := newPod(fmt.Sprint("web-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		advance(pods * writeInterval)
		if n := len(o.names("")); n == 0 || n > pods/yieldFactor+1 {
			t.Errorf("%d are explained while pods are bound, want a tenth of %d", n, pods)
		}
		o.binding.Store(false)
		advance(pods * writeInterval)
		if n := len(o.names("")); n != pods {
			t.Errorf("%d of %d are explained", n, pods)
		}
	})
}

func TestObjectsOfBoundPodsAreDeletedWithinSecondsAtTwentyBindsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const binds, within = 200, 3 * time.Second
		o := newTestEnv(t, newFakeServer())
		name := func(i int) string { return fmt.Sprint("web-", i) }
		for i := range binds {
			pod := newPod(name(i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		advance(binds * writeInterval)
		o.binding.Store(true)
		for i := range 2 * binds { // these wait for a first explanation meanwhile
			pod := newPod(fmt.Sprint("new-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		before := int(within / writeInterval)
		for i := range binds {
			must(o.pods.Update(newBoundPod(name(i), time.Now())))
			o.queue.PodBound("shop", name(i), types.UID(name(i)))
			advance(writeInterval)
			if late := i - before; late >= 0 && o.message("shop/"+name(late)) != "" {
				t.Fatalf("%s still has an object %v after its bind", name(late), within)
			}
		}
		if others := len(o.names("shop/new-")); others < binds/20 {
			t.Errorf("%d others were explained meanwhile, want every tenth write at least", others)
		}
		advance(within)
		if left := o.names("shop/web-"); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		if d := o.shortestSpan(20); d < time.Second {
			t.Errorf("21 writes within %v", d)
		}
	})
}

func TestExplainerLoadsExistingObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.perPage = 2
		waiting, placed, longPlaced := newPod("waiting"), newBoundPod("placed", time.Now().Add(-time.Minute/2)), newBoundPod("long-placed", time.Now().Add(-time.Hour))
		for _, object := range [][2]string{{"waiting", "waiting"}, {"placed", "placed"}, {"long-placed", "long-placed"}, {"gone", "gone"}, {"again", "old"}} {
			server.addObject(object[0], types.UID(object[1]))
		}
		server.objects["shop/placed"].Status.Result = v1alpha1.ResultBound
		again := newPod("again")
		o := newTestEnv(t, server, waiting, placed, longPlaced, again)
		advance(time.Second)
		o.wantObjects(t, "placed", "waiting")
		o.explain(waiting, "why", time.Second)
		o.wantMessage(t, "shop/waiting", " of waiting")
		o.explain(again, "why", time.Second)
		o.wantMessage(t, "shop/again", "why of again")
		advance(time.Minute)
		o.wantMessage(t, "shop/waiting", "why of waiting")
		o.wantObjects(t, "again", "waiting")
	})
}

// A request of an earlier leader may be carried out long after its successor has listed the objects.
func TestObjectsThatArriveLateAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		explained, waiting, placed := newPod("explained"), newPod("waiting"), newBoundPod("placed", time.Now())
		o := newTestEnv(t, newFakeServer(), explained, waiting, placed)
		o.explain(explained, "why", time.Second)
		for _, name := range []string{"waiting", "placed", "gone"} {
			o.addObject(name, types.UID(name))
		}
		advance(resyncInterval)
		o.wantObjects(t, "explained")
		o.takeRequests()
		advance(time.Minute)
		if want, got := slices.Repeat([]string{listRequest}, int(time.Minute/resyncInterval)), o.takeRequests(); !slices.Equal(got, want) {
			t.Errorf("requests of a minute without changes: %q, want %q", got, want)
		}
	})
}

func TestAnObjectThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestEnv(t, newFakeServer())
		o.addObject("gone", "gone", func(object *v1alpha1.SchedulingDecision) {
			object.DeletionTimestamp = new(metav1.Now()) // another client's finalizer keeps it
		})
		advance(time.Minute)
		o.wantRequests(t)
	})
}

func TestTheExistingObjectsAreListedLessOftenWhereTheyFillMorePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.perPage = 2
		o := newTestEnv(t, server)
		for i := range 10 {
			pod := newPod(fmt.Sprint("web-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		advance(2 * resyncInterval)
		o.takeRequests()
		advance(time.Hour)
		if got, most := len(o.takeRequests()), int(time.Hour/resyncInterval); got > most || got < most/2 {
			t.Errorf("%d requests in an hour, want %d", got, most)
		}
	})
}

func TestAnAPIServerThatListsNothingIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newPod("web")
		o := newTestEnv(t, newFakeServer(), web)
		o.respondWith(func(r *http.Request, _ func()) error {
			if r.Method == http.MethodGet {
				return apierrors.NewTooManyRequests("later", 20)
			}
			return nil
		})
		advance(resyncInterval)
		o.takeRequests()
		o.explain(web, "why", 20*time.Second-time.Millisecond)
		o.wantMessage(t, "shop/web", "")
		advance(time.Second)
		o.wantMessage(t, "shop/web", "why of web")
	})
}

func TestAnUnchangedExplanationKeepsItsLastChangeOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, web, db := newFakeServer(), newPod("web"), newPod("db")
		o := newTestEnv(t, server, web, db)
		o.explain(web, "why", 0)
		o.explain(db, "why", time.Hour)
		o.close()
		since := o.lastChange("shop/web")

		o = newTestEnv(t, server, web, db)
		o.explain(web, "why", 0)
		o.explain(db, "why else", time.Hour)
		o.wantRequests(t, "PATCH shop/db")
		if diff := cmp.Diff(since, o.lastChange("shop/web")); diff != "" {
			t.Errorf("lastChange (-before +after):\n%s", diff)
		}
	})
}

func TestExplainerWaitsUntilTheCRDIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.respond = func(*http.Request, func()) error { return errUnserved }
		web := newPod("web")
		o := newTestEnv(t, server, web)
		o.explain(web, "why", time.Minute)
		if n := len(o.takeRequests()); n != int(time.Minute/unservedRetryInterval) {
			t.Errorf("%d requests in a minute", n)
		}
		o.respondWith(nil)
		advance(unservedRetryInterval)
		o.wantMessage(t, "shop/web", "why of web")

		o.respondWith(func(*http.Request, func()) error { return errUnserved })
		o.explain(web, "why else", 2*time.Minute)
		o.remove("shop/web") // deleted with the CRD
		o.respondWith(nil)
		advance(unservedRetryInterval + time.Second)
		o.wantMessage(t, "shop/web", "why else of web")
	})
}
