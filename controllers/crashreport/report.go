package crashreport

import (
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/scheduler/framework"
)

// Report is what is known of a process that crashed.
type Report struct {
	// Process identifies the process, and Time is when it crashed.
	Process string
	Time    time.Time
	// Reason is the runtime's reason, such as "panic: goes off"; empty when the process
	// did not crash, as after SIGQUIT.
	Reason string
	// Functions are the functions on the stack of the goroutine that crashed, the
	// innermost first. The last one may be the function that started the goroutine.
	Functions []string
}

var (
	// reasonPattern matches the reason of a crash. Not every report has the line of a
	// fatal error: the runtime writes it to standard error alone.
	reasonPattern = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |SIG[A-Z]+: ).*$`)
	// crashedGoroutinePattern matches the first line of the stack of the goroutine that
	// crashed: the only one that is running.
	crashedGoroutinePattern = regexp.MustCompile(`(?m)^goroutine \d+ [^\n]*\[running[^\n]*\]:$`)
	// functionPattern matches a line that names a function: "pkg.(*Type).Method(0x1,
	// ...)".
	functionPattern = regexp.MustCompile(`^(?:created by )?([^\s(]+(?:\(\*[^\s()]+\)[^\s()]*)*)(?:\(.*\)| in goroutine \d+)?$`)
)

// parse reads a report as the runtime writes it.
func parse(text string) Report {
	r := Report{}
	begin := crashedGoroutinePattern.FindStringIndex(text)
	if begin == nil {
		return r
	}
	head := text[:begin[0]]
	switch reason := reasonPattern.FindString(head); {
	case strings.HasPrefix(reason, "SIGQUIT"):
		return r
	case reason != "":
		r.Reason = reason
	case strings.Contains(head, "runtime.newstack("):
		r.Reason = "fatal error: stack overflow"
	default:
		r.Reason = "fatal error"
	}
	stack, _, _ := strings.Cut(strings.TrimPrefix(text[begin[1]:], "\n"), "\n\n")
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, "\t") {
			continue // the source position of the function
		}
		if match := functionPattern.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			r.Functions = append(r.Functions, unescape(match[1]))
		}
	}
	return r
}

// unescape reverses how the linker escapes the last element of a package path.
func unescape(function string) string {
	return strings.NewReplacer("%2e", ".", "%22", `"`, "%25", "%").Replace(function)
}

// Plugins returns the plugins of registry that are on the stack, sorted: those of whose
// type a method is on it; else those whose constructor is; else those of whose package
// a function is. So plugins that share a package are distinguished where the stack
// allows it. A built-in plugin beside an out-of-tree plugin is left out, since it only
// called it, as DefaultPreemption does while it runs the filters.
func (r Report) Plugins(registry framework.Registry) []string {
	for _, matches := range []func(framework.Registration, string) bool{isMethod, isConstructor, isInPackage} {
		var found []string
		for name, plugin := range registry {
			if slices.ContainsFunc(r.Functions, func(function string) bool { return matches(plugin, function) }) {
				found = append(found, name)
			}
		}
		builtIn := func(name string) bool { return registry[name].InTree }
		if outOfTree := slices.DeleteFunc(slices.Clone(found), builtIn); len(outOfTree) > 0 {
			found = outOfTree
		}
		if found != nil {
			slices.Sort(found)
			return found
		}
	}
	return nil
}

// isMethod reports whether function is a method of the plugin's type, or a closure in
// one.
func isMethod(plugin framework.Registration, function string) bool {
	rest, ok := strings.CutPrefix(function, plugin.Package+".")
	if !ok || plugin.Type == "" {
		return false
	}
	receiver, _, method := strings.Cut(strings.TrimPrefix(rest, "(*"), ".")
	receiver, _, _ = strings.Cut(strings.TrimSuffix(receiver, ")"), "[")
	return method && receiver == plugin.Type
}

// isConstructor reports whether function is the plugin's constructor, or a closure in
// it.
func isConstructor(plugin framework.Registration, function string) bool {
	if plugin.New == nil {
		return false
	}
	f := runtime.FuncForPC(reflect.ValueOf(plugin.New).Pointer())
	if f == nil {
		return false
	}
	name := unescape(f.Name())
	return function == name || strings.HasPrefix(function, name+".")
}

// isInPackage reports whether function is in the plugin's package. In the package main,
// the functions main and init belong to no plugin.
func isInPackage(plugin framework.Registration, function string) bool {
	rest, ok := strings.CutPrefix(function, plugin.Package+".")
	if !ok || plugin.Package == "" || strings.Contains(rest, "/") {
		return false
	}
	return plugin.Package != "main" || rest != "main" && !strings.HasPrefix(rest, "main.") && !strings.HasPrefix(rest, "init")
}
