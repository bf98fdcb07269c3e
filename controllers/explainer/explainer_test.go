package explainer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
			o.remove("shop/web")
			o.explain(web, "why else", time.Minute)
			o.want(t, "POST shop", "PATCH shop/web", "POST shop")
			o.holds(t, "shop/web", "why else of web")
		},
		"a bound pod's goes at once": func(t *testing.T, o *office) {
			o.explain(web, "why", time.Second)
			o.want(t, "POST shop")
			o.desk.Bound("shop", "web", "web")
			pass(0)
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
		if n := len(o.names("")); n != crowd {
			t.Errorf("%d of %d are explained", n, crowd)
		}
		if d := o.fastest(20); d < time.Second {
			t.Errorf("21 writes within %v", d)
		}
	})
}

func TestWhatIsDueAtTheEndIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		words time.Duration
		want  int
	}{
		// Not a whole second, at whose end the twenty-first would be due, too.
		"as far as the budget reaches":       {time.Second - time.Millisecond, 20},
		"nothing, where somebody else leads": {0, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := openOffice(t, newShelf())
				o.words, o.begin = c.words, func() {
					for i := range 30 { // refused while bindings were brought to their end
						pod := aPod(fmt.Sprint("web-", i))
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
		const crowd = 100
		o := openOffice(t, newShelf())
		o.binding.Store(true)
		for i := range crowd {
			pod := aPod(fmt.Sprint("web-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		pass(crowd * explanationInterval)
		if n := len(o.names("")); n == 0 || n > crowd/yielding+1 {
			t.Errorf("%d are explained while pods are bound, want a tenth of %d", n, crowd)
		}
		o.binding.Store(false)
		pass(crowd * explanationInterval)
		if n := len(o.names("")); n != crowd {
			t.Errorf("%d of %d are explained", n, crowd)
		}
	})
}

func TestWhatExplainsAPodGoesSecondsAfterItsBindAtTwentyBindsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const binds, within = 200, 3 * time.Second
		o := openOffice(t, newShelf())
		name := func(i int) string { return fmt.Sprint("web-", i) }
		for i := range binds {
			pod := aPod(name(i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		pass(binds * explanationInterval)
		o.binding.Store(true)
		for i := range 2 * binds { // who waits for a first explanation all the while
			pod := aPod(fmt.Sprint("new-", i))
			must(o.pods.Add(pod))
			o.explain(pod, "why", 0)
		}
		before := int(within / explanationInterval)
		for i := range binds {
			must(o.pods.Update(boundPod(name(i), time.Now())))
			o.desk.Bound("shop", name(i), types.UID(name(i)))
			pass(explanationInterval)
			if late := i - before; late >= 0 && o.says("shop/"+name(late)) != "" {
				t.Fatalf("%s says why it waits %v after its bind", name(late), within)
			}
		}
		if others := len(o.names("shop/new-")); others < binds/20 {
			t.Errorf("%d others were explained meanwhile, want the tenth turns, if pods are not bound all the time", others)
		}
		pass(within)
		if left := o.names("shop/web-"); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		if d := o.fastest(20); d < time.Second {
			t.Errorf("21 writes within %v", d)
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
		o.stands(t, "placed", "waiting")
		o.explain(waiting, "why", time.Second)
		o.holds(t, "shop/waiting", " of waiting")
		o.explain(again, "why", time.Second)
		o.holds(t, "shop/again", "why of again")
		pass(time.Minute)
		o.holds(t, "shop/waiting", "why of waiting")
		o.stands(t, "again", "waiting")
	})
}

func TestWhatIsSoStillKeepsItsAgeOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf, web, db := newShelf(), aPod("web"), aPod("db")
		o := openOffice(t, shelf, web, db)
		o.explain(web, "why", 0)
		o.explain(db, "why", time.Hour)
		o.close()
		since := o.lastChange("shop/web")

		o = openOffice(t, shelf, web, db)
		o.explain(web, "why", 0)
		o.explain(db, "why else", time.Hour)
		o.want(t, "PATCH shop/db")
		if diff := cmp.Diff(since, o.lastChange("shop/web")); diff != "" {
			t.Errorf("since when it is so (-before +after):\n%s", diff)
		}
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
		o.remove("shop/web") // with their definition
		o.answering(nil)
		pass(unservedPause + time.Second)
		o.holds(t, "shop/web", "why else of web")
	})
}
