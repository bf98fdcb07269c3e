package integration

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/operator"
)

// bomb takes its process down, a moment after it was built and from a
// goroutine of its own. In the process of the suite it is a dud.
const bomb = "Bomb"

func newBomb(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	if operator.IsManager() {
		time.AfterFunc(100*time.Millisecond, func() { panic(fmt.Sprint(bomb, " goes off")) })
	}
	return &afterwards{bomb}, nil
}
