package scope

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

func TestEventsOfACustomResourceAreToldAsLongAsSomebodyWantsThem(t *testing.T) {
	amongFoos(t, func(l *listeners) {
		l.put("create", "a", "")
		first, second := l.pool.New(), l.pool.New()
		l.hear(first, fooEvents)
		l.wantTold("foos.v1.example.com/Add >a")
		l.hear(second, fooEvents)
		if left := len(first.Pending()) + len(second.Pending()); left != 0 || l.pool.Extra() != 1 {
			t.Errorf("%d things are pending, %d informers run", left, l.pool.Extra())
		}
		l.put("update", "a", " new")
		l.put("delete", "a", "")
		l.wantTold("foos.v1.example.com/Update a>a new", "foos.v1.example.com/Delete a new>")
		first.Close()
		l.put("create", "b", "")
		l.wantTold("foos.v1.example.com/Add >b")
		second.Close()
		if l.pool.Extra() != 0 {
			t.Error("the informer runs on")
		}
		l.put("create", "c", "")
		l.wantTold()
		if err := second.Hear(fooEvents); err != ErrOver {
			t.Errorf("hears after its end: %v, want ErrOver", err)
		}
	})
}

func TestACustomResourceIsHeardOfOnceItIsServed(t *testing.T) {
	amongFoos(t, func(l *listeners) {
		l.server("list", notServed)
		s := l.pool.New()
		defer s.Close()
		changes := 0
		s.WhenDeaf(func() { changes++ })
		l.hear(s, fooEvents)
		if len(s.Pending()) != 0 {
			t.Error("is waited for")
		}
		l.wantDeaf(s, "listing them: "+notServed.Error())
		time.Sleep(time.Minute)
		synctest.Wait()
		if changes != 1 {
			t.Errorf("told %d times that it is deaf", changes)
		}
		l.put("create", "a", "")
		l.server("list", nil)
		time.Sleep(lookAgain)
		l.wantTold("foos.v1.example.com/Add >a")
		l.wantDeaf(s, "")
		if changes != 2 {
			t.Errorf("told %d times", changes)
		}
	})
}

func TestARightThatIsMissingIsTold(t *testing.T) {
	for verb, want := range map[string]string{
		"list":  "listing them: " + forbidden.Error(),
		"watch": "watching them: " + forbidden.Error(),
	} {
		t.Run(verb, func(t *testing.T) {
			amongFoos(t, func(l *listeners) {
				l.server(verb, forbidden)
				s := l.pool.New()
				defer s.Close()
				l.hear(s, fooEvents)
				l.wantDeaf(s, want)
				l.server(verb, nil)
				time.Sleep(lookAgain)
				l.wantDeaf(s, "")
				l.put("create", "a", "")
				l.wantTold("foos.v1.example.com/Add >a")
			})
		})
	}
}

func TestARightThatIsLostIsTold(t *testing.T) {
	amongFoos(t, func(l *listeners) {
		watches := make(chan *watch.RaceFreeFakeWatcher, 10)
		l.dynamic.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			if err := l.says("watch"); err != nil {
				return true, nil, err
			}
			w := watch.NewRaceFreeFake()
			watches <- w
			return true, w, nil
		})
		s := l.pool.New()
		defer s.Close()
		l.hear(s, fooEvents)
		l.wantDeaf(s, "")
		l.server("watch", forbidden)
		l.server("list", forbidden)
		for len(watches) > 0 {
			(<-watches).Stop()
		}
		time.Sleep(5 * time.Minute)
		l.wantDeaf(s, "listing them: "+forbidden.Error())
		l.server("watch", nil)
		l.server("list", nil)
		time.Sleep(lookAgain)
		l.wantDeaf(s, "")
	})
}

func TestWhatIsNoResourceIsRefused(t *testing.T) {
	amongFoos(t, func(l *listeners) {
		s := l.pool.New()
		defer s.Close()
		for _, name := range []fwk.EventResource{"Foo", "foos.v1", "..", ""} {
			if err := s.Hear(name); err == nil || !strings.Contains(err.Error(), "want plural.version.group, such as foos.v1.example.com") {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, name := range []fwk.EventResource{fwk.Node, fwk.PersistentVolume} {
			if err := s.Hear(name); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// Its lister holds the same objects: they are not held twice.
func TestEventsWithATypeComeFromTheInformerOfPlugins(t *testing.T) {
	amongFoos(t, func(l *listeners) {
		s := l.pool.New()
		defer s.Close()
		s.Core().V1().PersistentVolumes().Lister()
		l.hear(s, fwk.PersistentVolume)
		if l.pool.Extra() != 1 {
			t.Errorf("%d informers", l.pool.Extra())
		}
		volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		if _, err := l.client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.wantTold("PersistentVolume/Add >PersistentVolume v")
	})
}
