package scopedinformers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

var (
	notServed = apierrors.NewGenericServerResponse(404, "list", foos.GroupResource(), "", "", 0, true)
	forbidden = apierrors.NewForbidden(foos.GroupResource(), "", errors.New("nobody said so"))
)

func TestEventsOfACustomResourceAreDeliveredWhileAFactorySubscribes(t *testing.T) {
	withFoos(t, func(l *eventTestEnv) {
		l.writeFoo("create", "a", "")
		first, second := l.pool.NewFactory(), l.pool.NewFactory()
		l.subscribe(first, fooEvents)
		l.wantEvents("foos.v1.example.com/Add >a")
		l.subscribe(second, fooEvents)
		if left := len(first.Pending()) + len(second.Pending()); left != 0 || l.pool.PluginInformers() != 1 {
			t.Errorf("%d things are pending, %d informers run", left, l.pool.PluginInformers())
		}
		l.writeFoo("update", "a", " new")
		l.writeFoo("delete", "a", "")
		l.wantEvents("foos.v1.example.com/Update a>a new", "foos.v1.example.com/Delete a new>")
		first.Close()
		l.writeFoo("create", "b", "")
		l.wantEvents("foos.v1.example.com/Add >b")
		second.Close()
		if l.pool.PluginInformers() != 0 {
			t.Error("the informer runs on")
		}
		l.writeFoo("create", "c", "")
		l.wantEvents()
		if err := second.Subscribe(fooEvents); err != ErrClosed {
			t.Errorf("hears after its end: %v, want ErrOver", err)
		}
	})
}

func TestACustomResourceDeliversEventsOnceItIsServed(t *testing.T) {
	withFoos(t, func(l *eventTestEnv) {
		l.setServerError("list", notServed)
		s := l.pool.NewFactory()
		defer s.Close()
		changes := 0
		s.OnMissedEventsChange(func() { changes++ })
		l.subscribe(s, fooEvents)
		if len(s.Pending()) != 0 {
			t.Error("is waited for")
		}
		l.wantMissedEvents(s, "listing them: "+notServed.Error())
		time.Sleep(time.Minute)
		synctest.Wait()
		if changes != 1 {
			t.Errorf("told %d times that it is deaf", changes)
		}
		l.writeFoo("create", "a", "")
		l.setServerError("list", nil)
		time.Sleep(retryInterval)
		l.wantEvents("foos.v1.example.com/Add >a")
		l.wantMissedEvents(s, "")
		if changes != 2 {
			t.Errorf("told %d times", changes)
		}
	})
}

func TestAMissingPermissionIsReported(t *testing.T) {
	for verb, want := range map[string]string{
		"list":  "listing them: " + forbidden.Error(),
		"watch": "watching them: " + forbidden.Error(),
	} {
		t.Run(verb, func(t *testing.T) {
			withFoos(t, func(l *eventTestEnv) {
				l.setServerError(verb, forbidden)
				s := l.pool.NewFactory()
				defer s.Close()
				l.subscribe(s, fooEvents)
				l.wantMissedEvents(s, want)
				l.setServerError(verb, nil)
				time.Sleep(retryInterval)
				l.wantMissedEvents(s, "")
				l.writeFoo("create", "a", "")
				l.wantEvents("foos.v1.example.com/Add >a")
			})
		})
	}
}

func TestALostPermissionIsReported(t *testing.T) {
	withFoos(t, func(l *eventTestEnv) {
		watches := make(chan *watch.RaceFreeFakeWatcher, 10)
		l.dynamic.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			if err := l.serverError("watch"); err != nil {
				return true, nil, err
			}
			w := watch.NewRaceFreeFake()
			watches <- w
			return true, w, nil
		})
		s := l.pool.NewFactory()
		defer s.Close()
		l.subscribe(s, fooEvents)
		l.wantMissedEvents(s, "")
		l.setServerError("watch", forbidden)
		l.setServerError("list", forbidden)
		for len(watches) > 0 {
			(<-watches).Stop()
		}
		time.Sleep(5 * time.Minute)
		l.wantMissedEvents(s, "listing them: "+forbidden.Error())
		l.setServerError("watch", nil)
		l.setServerError("list", nil)
		time.Sleep(retryInterval)
		l.wantMissedEvents(s, "")
	})
}

func TestAnInvalidResourceNameIsRefused(t *testing.T) {
	withFoos(t, func(l *eventTestEnv) {
		s := l.pool.NewFactory()
		defer s.Close()
		for _, name := range []fwk.EventResource{"Foo", "foos.v1", "..", ""} {
			if err := s.Subscribe(name); err == nil || !strings.Contains(err.Error(), "want plural.version.group, such as foos.v1.example.com") {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, name := range []fwk.EventResource{fwk.Node, fwk.PersistentVolume} {
			if err := s.Subscribe(name); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// Its lister holds the same objects: they are not held twice.
func TestTypedEventsShareThePluginInformer(t *testing.T) {
	withFoos(t, func(l *eventTestEnv) {
		s := l.pool.NewFactory()
		defer s.Close()
		s.Core().V1().PersistentVolumes().Lister()
		l.subscribe(s, fwk.PersistentVolume)
		if l.pool.PluginInformers() != 1 {
			t.Errorf("%d informers", l.pool.PluginInformers())
		}
		volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		if _, err := l.client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.wantEvents("PersistentVolume/Add >PersistentVolume v")
	})
}
