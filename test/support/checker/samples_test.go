package checker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestAProcessIsSampled(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/goroutine") {
			fmt.Fprint(w, "goroutine profile: total 42\n3 @ 0x1\n")
			return
		}
		fmt.Fprintf(w, "heap profile: 1: 2 [3: 4] @ heap/1\n# runtime.MemStats\n# HeapAlloc = 1234%s\n", map[bool]string{true: "", false: "9"}[r.URL.Query().Get("gc") == "1"])
	}))
	defer server.Close()
	p := Process{Name: "this", PID: os.Getpid(), Pprof: strings.TrimPrefix(server.URL, "http://")}
	got := p.sample(t.Context())
	if got.Goroutines != 42 || got.Heap != 1234 {
		t.Errorf("got %+v", got)
	}
	p.Pprof = "127.0.0.1:1"
	if got := p.sample(t.Context()); got.Goroutines != 0 || got.Heap != 0 {
		t.Errorf("a process that does not answer has %+v", got)
	}
}

func TestAProcessThatEndsByItselfIsNoted(t *testing.T) {
	end := func() int {
		cmd := exec.CommandContext(t.Context(), "true")
		if err := cmd.Run(); err != nil {
			t.Skip(err)
		}
		return cmd.Process.Pid
	}
	s := startSampler(time.Hour)
	defer s.stop()
	s.add(Process{Name: "runs", PID: os.Getpid()})
	s.add(Process{Name: "ended", PID: end()})
	s.add(Process{Name: "forgotten", PID: end()})
	s.forget("forgotten")
	if _, exits := s.all(); fmt.Sprint(exits) != "[ended]" {
		t.Errorf("ended by themselves: %v", exits)
	}
	s.sampleAll(t.Context())
	samples, exits := s.all()
	if len(samples) != 1 || len(samples[fmt.Sprintf("runs (%d)", os.Getpid())]) != 1 || len(exits) != 1 {
		t.Errorf("samples %v, exits %v", samples, exits)
	}
}
