package framework

import (
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CallInStack returns the call of one of f's plugins that a goroutine is in,
// from its stack as runtime.Stack prints it. If one plugin called another, it
// is the inner plugin; Point is the outermost exported method of that plugin on
// the stack. It finds calls of in-tree plugins, which no CallWatch tracks.
// found is false if no plugin is on the stack.
func (f *Framework) CallInStack(stack string) (call Call, found bool) {
	methods := make(map[string]string, len(f.plugins)) // by the prefix of the plugin's methods
	for _, plugin := range f.plugins {
		methods[methodPrefix(plugin)] = plugin.Name()
	}
	for line := range strings.Lines(stack) {
		name, method := pluginMethodIn(methods, line)
		switch {
		case name == "":
			continue
		case found && name != call.Plugin:
			return call, true
		}
		if first, _ := utf8.DecodeRuneInString(method); unicode.IsUpper(first) || !found {
			call = Call{Plugin: name, Point: method}
		}
		found = true
	}
	return call, found
}

// IsIsolated reports whether a goroutine makes a call that another goroutine waits for, from its
// stack as runtime.Stack prints it.
func IsIsolated(stack string) bool {
	return strings.Contains(stack, "\ngithub.com/berthdev/berth/scheduler/framework.runIsolated(")
}

// pluginMethodIn returns the plugin and the method that a line of a stack
// names.
func pluginMethodIn(methods map[string]string, line string) (plugin, method string) {
	for symbol, name := range methods {
		if rest, is := strings.CutPrefix(line, symbol); is {
			method, _, _ = strings.Cut(rest, "(")
			method, _, _ = strings.Cut(method, ".") // a closure
			return name, strings.TrimSpace(method)
		}
	}
	return "", ""
}

// methodPrefix is the prefix that all methods of a plugin have on a stack.
func methodPrefix(plugin any) string {
	t := reflect.TypeOf(plugin)
	if t.Kind() == reflect.Pointer {
		return t.Elem().PkgPath() + ".(*" + t.Elem().Name() + ")."
	}
	return t.PkgPath() + "." + t.Name() + "."
}
