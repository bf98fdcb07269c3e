package operator

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
)

func TestProbesNameTheFailedCheckAndGiveTheReasonAtItsPath(t *testing.T) {
	fine := func() error { return nil }
	hangs := func() error { return errors.New("the loop has been at one pod") }
	for sentence, c := range map[string]struct {
		probes     probeChecks
		path, want string
	}{
		"all is well":                    {probeChecks{map[string]func() error{"loop": fine}, nil}, "/livez", "200 ok"},
		"what is checked":                {probeChecks{map[string]func() error{"loop": fine}, nil}, "/livez?verbose", "200 [+]loop ok\n[+]ping ok\nhealthz check passed\n"},
		"healthz is livez":               {probeChecks{map[string]func() error{"loop": hangs}, nil}, "/healthz", "500 [-]loop failed: reason withheld\n[+]ping ok\nhealthz check failed\n"},
		"why is said at its own path":    {probeChecks{map[string]func() error{"loop": hangs}, nil}, "/livez/loop", "500 internal server error: the loop has been at one pod\n"},
		"what is not live may be ready":  {probeChecks{map[string]func() error{"loop": hangs}, map[string]func() error{"crds": fine}}, "/readyz", "200 ok"},
		"what is not ready may be live":  {probeChecks{nil, map[string]func() error{"crds": hangs}}, "/livez", "200 ok"},
		"a check may be left out":        {probeChecks{map[string]func() error{"loop": hangs}, nil}, "/livez?exclude=loop", "200 ok"},
		"what is not there is not found": {probeChecks{}, "/statusz", "404 404 page not found\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			answer := httptest.NewRecorder()
			c.probes.handler().ServeHTTP(answer, httptest.NewRequest("GET", c.path, nil))
			if got := fmt.Sprintf("%d %s", answer.Code, answer.Body); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
