package operator

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
)

func TestProbesNameTheFailedCheckAndGiveTheReasonAtItsPath(t *testing.T) {
	passes := func() error { return nil }
	fails := func() error { return errors.New("the loop has been at one pod") }
	for name, c := range map[string]struct {
		probes     probeChecks
		path, want string
	}{
		"all checks pass":                         {probeChecks{map[string]func() error{"loop": passes}, nil}, "/livez", "200 ok"},
		"verbose lists the checks":                {probeChecks{map[string]func() error{"loop": passes}, nil}, "/livez?verbose", "200 [+]loop ok\n[+]ping ok\nhealthz check passed\n"},
		"healthz equals livez":                    {probeChecks{map[string]func() error{"loop": fails}, nil}, "/healthz", "500 [-]loop failed: reason withheld\n[+]ping ok\nhealthz check failed\n"},
		"the error is served at the check's path": {probeChecks{map[string]func() error{"loop": fails}, nil}, "/livez/loop", "500 internal server error: the loop has been at one pod\n"},
		"readyz passes while livez fails":         {probeChecks{map[string]func() error{"loop": fails}, map[string]func() error{"crds": passes}}, "/readyz", "200 ok"},
		"livez passes while readyz fails":         {probeChecks{nil, map[string]func() error{"crds": fails}}, "/livez", "200 ok"},
		"a check can be excluded":                 {probeChecks{map[string]func() error{"loop": fails}, nil}, "/livez?exclude=loop", "200 ok"},
		"another path is not found":               {probeChecks{}, "/statusz", "404 404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			response := httptest.NewRecorder()
			c.probes.handler().ServeHTTP(response, httptest.NewRequest("GET", c.path, nil))
			if got := fmt.Sprintf("%d %s", response.Code, response.Body); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
