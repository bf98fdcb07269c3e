package framework

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
)

// Point names an extension point as KubeSchedulerConfiguration v1 does.
type Point string

// The extension points that a profile can configure, in the order in which a
// pod meets them.
const (
	PreEnqueue Point = "preEnqueue"
	QueueSort  Point = "queueSort"
	PreFilter  Point = "preFilter"
	Filter     Point = "filter"
	PostFilter Point = "postFilter"
	PreScore   Point = "preScore"
	Score      Point = "score"
	Reserve    Point = "reserve"
	Permit     Point = "permit"
	PreBind    Point = "preBind"
	Bind       Point = "bind"
	PostBind   Point = "postBind"
)

// Points lists every configurable extension point in the order above.
var Points = []Point{
	PreEnqueue, QueueSort, PreFilter, Filter, PostFilter, PreScore,
	Score, Reserve, Permit, PreBind, Bind, PostBind,
}

// Entry is one plugin at one extension point.
type Entry struct {
	// Name is the plugin's registered name.
	Name string
	// Weight multiplies the plugin's normalised score; 0 where nothing scores.
	Weight int32
}

// Chains holds, for each extension point, the plugins that run there, in order.
type Chains map[Point][]Entry

// Factory builds one instance of a plugin for one generation. args is the
// decoded, defaulted value of the registered argument type, or nil where the
// plugin takes none. ctx ends when the generation closes. The signature is
// kube-scheduler's own, so that a plugin's constructor registers unchanged.
type Factory func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error)

// Registration is what the house knows of a plugin before it is built.
type Registration struct {
	// Name is how profiles name the plugin.
	Name string
	// New builds an instance.
	New Factory
	// BuiltIn says that the plugin is the house's own: nobody watches how long
	// it takes.
	InTree bool
	// ReadsTrimmedPods says that the plugin reads of pods only what built-in plugins
	// read; see plugins.ReadsTrimmedPods.
	ReadsTrimmedPods bool
	// Points are the extension points the plugin's type implements.
	Points []Point
	// Package and Type name the plugin's type, as in "example.com/gpu" and "Plugin":
	// its methods are found by them on the stack of a process that crashed.
	Package, Type string
	// NewArgs returns an empty value of the type that arguments are decoded into;
	// nil where the plugin takes no arguments.
	NewArgs func() runtime.Object
	// Default fills what args leaves out; may be nil.
	Default func(args runtime.Object)
	// Convert returns a new object of the type that Validate and New take, made from
	// decoded and defaulted args, which stay as they are; nil where that is the type
	// that NewArgs returns.
	Convert func(args runtime.Object) (runtime.Object, error)
	// Validate says what is wrong with defaulted args; may be nil. Paths are
	// relative to path.
	Validate func(args runtime.Object, path *field.Path) field.ErrorList
	// Err says why the plugin cannot be used; nil where it can. plugins.With returns it.
	Err error
}

// Converted returns args as Validate and New take them.
func (r Registration) ConvertArgs(args runtime.Object) (runtime.Object, error) {
	if r.Convert == nil || args == nil {
		return args, nil
	}
	return r.Convert(args)
}

// Implements reports whether the plugin's type implements point.
func (r Registration) Implements(point Point) bool {
	return slices.Contains(r.Points, point)
}

// Registry maps a plugin's name to its registration.
type Registry map[string]Registration

// Names returns the registered names in alphabetical order.
func (r Registry) Names() []string {
	return slices.Sorted(maps.Keys(r))
}

// TypeOf returns the package path and the name of plugin's type, without the
// arguments of a generic one.
func TypeOf(plugin fwk.Plugin) (pkg, name string) {
	t := reflect.TypeOf(plugin)
	if t == nil {
		return "", ""
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name, _, _ = strings.Cut(t.Name(), "[")
	return t.PkgPath(), name
}

// PointsOf returns the extension points that plugin, a value of the plugin's
// type (a nil pointer will do), implements.
func PointsOf(plugin fwk.Plugin) []Point {
	implements := map[Point]bool{}
	_, implements[PreEnqueue] = plugin.(fwk.PreEnqueuePlugin)
	_, implements[QueueSort] = plugin.(fwk.QueueSortPlugin)
	_, implements[PreFilter] = plugin.(fwk.PreFilterPlugin)
	_, implements[Filter] = plugin.(fwk.FilterPlugin)
	_, implements[PostFilter] = plugin.(fwk.PostFilterPlugin)
	_, implements[PreScore] = plugin.(fwk.PreScorePlugin)
	_, implements[Score] = plugin.(fwk.ScorePlugin)
	_, implements[Reserve] = plugin.(fwk.ReservePlugin)
	_, implements[Permit] = plugin.(fwk.PermitPlugin)
	_, implements[PreBind] = plugin.(fwk.PreBindPlugin)
	_, implements[Bind] = plugin.(fwk.BindPlugin)
	_, implements[PostBind] = plugin.(fwk.PostBindPlugin)
	return slices.DeleteFunc(slices.Clone(Points), func(p Point) bool { return !implements[p] })
}
