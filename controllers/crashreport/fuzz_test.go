package crashreport

import (
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// FuzzReport reads any text as what the runtime wrote when a process crashed. It blames
// plugins of the registry only, sorted, and none without a reason for the crash.
func FuzzReport(f *testing.F) {
	for _, text := range []string{fatalInMethod, panicInGoroutine, stackOverflow, fatalInCallee, fatalInHelper, sigquit, panicInMain, ""} {
		f.Add(text)
	}
	f.Add("goroutine 1 [running]:\n" + strings.Repeat("(*", 2000) + "\ngithub.com/berthdev/berth/scheduler/plugins/nodename.(*Plugin).Filter(...)\n")
	f.Add("goroutine 1 [running]:\ngithub.com/berthdev/berth/scheduler/plugins/noderesources.NewFit.func1()\r\n\n")
	registry := plugins.InTree()
	registry["Gpu"] = newRegistration("example.com/gpu.v2/plugin", "Gpu")
	registry["Nameless"] = framework.Registration{}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxSize {
			return
		}
		r := parse(text)
		if strings.Contains(r.Reason, "\n") || len(r.Functions) > strings.Count(text, "\n")+1 {
			t.Fatalf("reason %q, %d functions", r.Reason, len(r.Functions))
		}
		for _, function := range r.Functions {
			if function == "" || strings.ContainsAny(function, " \t\n") {
				t.Fatalf("%q is no function", function)
			}
		}
		blamed := r.Plugins(registry)
		if len(blamed) > 0 && len(r.Functions) == 0 || !slices.IsSorted(blamed) {
			t.Fatalf("plugins %v are blamed for the functions %v", blamed, r.Functions)
		}
		for _, name := range blamed {
			if _, known := registry[name]; !known || name == "Nameless" {
				t.Fatalf("plugin %q is blamed for the functions %v", name, r.Functions)
			}
		}
	})
}
