package framework

import (
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
)

// Point is an extension point, named as in KubeSchedulerConfiguration v1.
type Point string

// Extension points that a profile can configure, in the order in which a pod
// passes them.
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

// Extension points that the cycle of a group calls. A profile cannot configure them.
const (
	// PlacementFeasible has the plugins that are enabled anywhere and implement it.
	PlacementFeasible Point = "placementFeasible"
	// PodGroupPostFilter has the plugins that are enabled at multiPoint and implement it.
	PodGroupPostFilter Point = "podGroupPostFilter"
)

// Points lists all configurable extension points in this order.
var Points = []Point{
	PreEnqueue, QueueSort, PreFilter, Filter, PostFilter, PreScore,
	Score, Reserve, Permit, PreBind, Bind, PostBind,
}

// GroupPoints lists the extension points of groups. A profile that schedules no groups has no
// plugins there.
var GroupPoints = []Point{PlacementFeasible, PodGroupPostFilter}

// AllPoints lists Points, then GroupPoints.
var AllPoints = slices.Concat(Points, GroupPoints)

// Entry is one plugin at one extension point.
type Entry struct {
	// Name is the plugin's registered name.
	Name string
	// Weight is the weight of a Score plugin; 0 elsewhere.
	Weight int32
}

// Chains are the plugins of each extension point in order.
type Chains map[Point][]Entry

// All returns the entries of all extension points in the order of AllPoints.
func (c Chains) All() iter.Seq2[Point, Entry] {
	return func(yield func(Point, Entry) bool) {
		for _, point := range AllPoints {
			for _, entry := range c[point] {
				if !yield(point, entry) {
					return
				}
			}
		}
	}
}

// SchedulesGroups reports whether they are those of a profile that schedules the pods of a group
// together: a plugin says whether enough of them fit.
func (c Chains) SchedulesGroups() bool { return len(c[PlacementFeasible]) > 0 }

// Factory builds one instance of a plugin for one Generation. args is the
// decoded and defaulted argument object, or nil if the plugin has none. ctx
// ends when the Generation closes. The signature is kube-scheduler's, so that
// constructors of plugins can be registered unchanged.
type Factory func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error)

// Registration describes a plugin before it is built.
type Registration struct {
	// Name is the name by which profiles enable the plugin.
	Name string
	// New builds an instance.
	New Factory
	// InTree marks Berth's own plugins, whose calls have no timeout.
	InTree bool
	// ReadsTrimmedPods says that the plugin reads no more of pods than in-tree
	// plugins do; see plugins.ReadsTrimmedPods.
	ReadsTrimmedPods bool
	// Points are the extension points that the plugin's type implements, GroupPoints those
	// of groups.
	Points, GroupPoints []Point
	// Package and Type name the plugin's type, for example "example.com/gpu"
	// and "Plugin". They identify its methods on the stack of a crashed
	// process.
	Package, Type string
	// NewArgs returns an empty object of the type into which arguments are
	// decoded; nil if the plugin has no arguments.
	NewArgs func() runtime.Object
	// Default sets defaults in args; may be nil.
	Default func(args runtime.Object)
	// Convert returns a new object of the type that Validate and New take, from
	// decoded and defaulted args, which it does not change; nil if that is the
	// type of NewArgs.
	Convert func(args runtime.Object) (runtime.Object, error)
	// Validate returns the errors of defaulted args, with paths below path; may
	// be nil.
	Validate func(args runtime.Object, path *field.Path) field.ErrorList
	// Err is why the plugin cannot be used, or nil. plugins.With returns it.
	Err error
}

// ConvertArgs returns args in the type that Validate and New take.
func (r Registration) ConvertArgs(args runtime.Object) (runtime.Object, error) {
	if r.Convert == nil || args == nil {
		return args, nil
	}
	return r.Convert(args)
}

// Implements reports whether the plugin's type implements point.
func (r Registration) Implements(point Point) bool {
	return slices.Contains(r.Points, point) || slices.Contains(r.GroupPoints, point)
}

// Registry maps a plugin's name to its registration.
type Registry map[string]Registration

// Names returns the registered names in alphabetical order.
func (r Registry) Names() []string {
	return slices.Sorted(maps.Keys(r))
}

// TypeOf returns the package path and the name of plugin's type, without type
// arguments.
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

// PointsOf returns the extension points that plugin implements; plugin may be a
// nil pointer.
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

// GroupPointsOf returns the extension points of groups that plugin implements; plugin may be a
// nil pointer.
func GroupPointsOf(plugin fwk.Plugin) (points []Point) {
	if _, ok := plugin.(PlacementFeasiblePlugin); ok {
		points = append(points, PlacementFeasible)
	}
	if _, ok := plugin.(fwk.PodGroupPostFilterPlugin); ok {
		points = append(points, PodGroupPostFilter)
	}
	return points
}
