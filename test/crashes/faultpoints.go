package crashes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FaultPoint is a place in the product's code that writes to the API server.
type FaultPoint struct {
	// File is relative to the module; Function is "name" or "(*type).name".
	File, Function string
	// Verb is the name of the method, such as UpdateStatus.
	Verb string
	// Resource is "resource" or "resource/subresource", "" where the types do not tell.
	Resource string
	// Index tells apart places that have all else in common, from 1, in the order of the
	// code.
	Index int
}

func (p FaultPoint) String() string {
	text := fmt.Sprintf("%s %s: %s %s", p.File, p.Function, p.Verb, cmp.Or(p.Resource, "?"))
	if p.Index > 1 {
		text += fmt.Sprintf(" (%d)", p.Index)
	}
	return text
}

// productPatterns are the packages that make up the manager.
var productPatterns = []string{".", "./operator/...", "./controllers/...", "./scheduler/...", "./api/..."}

// FaultPoints returns every place in the product's packages that writes to the API server, in
// the order of files and lines. root is the folder of the module. The packages are
// type-checked from source; what they import is read from the build cache, which the go
// command fills.
func FaultPoints(ctx context.Context, root string) ([]FaultPoint, error) {
	product, exports, err := listPackages(ctx, root)
	if err != nil {
		return nil, err
	}
	finder := newWriteFinder(root, exports)
	for _, p := range product {
		if err := finder.addPackage(p); err != nil {
			return nil, err
		}
	}
	return finder.points, nil
}

// listedPackage is what `go list` says of a package.
type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// listPackages returns the packages of the product, and the file with the export data of each
// package that they depend on.
func listPackages(ctx context.Context, root string) (product []listedPackage, exports map[string]string, err error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-export", "-tags=grpcnotrace", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, productPatterns...)...)
	var text, stderr bytes.Buffer
	list.Dir, list.Stdout, list.Stderr = root, &text, &stderr
	if err := list.Run(); err != nil {
		return nil, nil, fmt.Errorf("listing the product's packages: %w: %s", err, stderr.String())
	}
	exports = map[string]string{}
	for decoder := json.NewDecoder(&text); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return product, exports, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("listing the product's packages: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			product = append(product, p)
		}
	}
}

// writeFinder collects the writes of packages.
type writeFinder struct {
	root     string
	files    *token.FileSet
	importer types.Importer
	points   []FaultPoint
}

// newWriteFinder returns a finder for packages below root that import packages with these files
// of export data.
func newWriteFinder(root string, exports map[string]string) *writeFinder {
	finder := &writeFinder{root: root, files: token.NewFileSet()}
	finder.importer = importer.ForCompiler(finder.files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of package %s", path)
		}
		return os.Open(exports[path])
	})
	return finder
}

func (f *writeFinder) addPackage(p listedPackage) error {
	var files []*ast.File
	slices.Sort(p.GoFiles)
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(f.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: f.importer}
	if _, err := config.Check(p.ImportPath, f.files, files, info); err != nil {
		return fmt.Errorf("type-checking %s: %w", p.ImportPath, err)
	}
	for _, file := range files {
		name, err := filepath.Rel(f.root, f.files.Position(file.Pos()).Filename)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			f.addDeclaration(filepath.ToSlash(name), declaration, info)
		}
	}
	return nil
}

// addDeclaration adds the writes of one declaration.
func (f *writeFinder) addDeclaration(file string, declaration ast.Decl, info *types.Info) {
	function := "a variable"
	if d, ok := declaration.(*ast.FuncDecl); ok {
		function = functionName(d)
	}
	var parents []ast.Node
	ast.Inspect(declaration, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		parents = append(parents, n)
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		verb, resource := writeOf(selector, parents, info)
		if verb == "" {
			return true
		}
		point := FaultPoint{File: file, Function: function, Verb: verb, Resource: resource, Index: 1}
		for slices.Contains(f.points, point) {
			point.Index++
		}
		f.points = append(f.points, point)
		return true
	})
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return fmt.Sprintf("(%s).%s", types.ExprString(d.Recv.List[0].Type), d.Name.Name)
}

// writeVerbs are the methods that write, of clients of every kind; requestVerbs are those of a
// generic REST client, with the verb that they stand for; sinks begin to write Events by the
// recorders of libraries.
var (
	writeVerbs = []string{
		"Create", "Update", "UpdateStatus", "UpdateEphemeralContainers", "UpdateResize", "UpdateScale", "UpdateApproval",
		"Patch", "Apply", "ApplyStatus", "ApplyScale", "Delete", "DeleteCollection", "DeleteAllOf", "Bind", "Evict", "EvictV1", "EvictV1beta1",
		"CreateToken", "Finalize", "CreateWithEventNamespace", "UpdateWithEventNamespace", "PatchWithEventNamespace",
		"CreateWithEventNamespaceWithContext", "UpdateWithEventNamespaceWithContext", "PatchWithEventNamespaceWithContext",
	}
	requestVerbs = map[string]string{"Post": "Create", "Put": "Update", "Patch": "Patch", "Delete": "Delete", "Verb": "Verb"}
	sinks        = []string{"GetEventRecorder", "GetEventRecorderFor", "StartRecordingToSink", "StartRecordingToSinkWithContext"}
)

// clientPackages have the methods of writeVerbs.
var clientPackages = []string{
	"k8s.io/client-go/kubernetes", "k8s.io/client-go/gentype", "k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", "k8s.io/client-go/scale",
	"k8s.io/client-go/tools/leaderelection/resourcelock", "k8s.io/client-go/tools/events", "k8s.io/client-go/tools/record",
	"sigs.k8s.io/controller-runtime/pkg/client",
}

// writeOf returns the verb and the resource of a method that writes to the API server; an empty
// verb for everything else. parents end with the selector.
func writeOf(selector *ast.SelectorExpr, parents []ast.Node, info *types.Info) (verb, resource string) {
	method, ok := info.Uses[selector.Sel].(*types.Func)
	if !ok || method.Pkg() == nil || method.Signature().Recv() == nil {
		return "", ""
	}
	from, name := method.Pkg().Path(), method.Name()
	of := func(prefix string) bool { return from == prefix || strings.HasPrefix(from, prefix+"/") }
	switch {
	case from == "k8s.io/client-go/rest":
		verb = requestVerbs[name]
		resource = requestResource(parents, info)
	case slices.Contains(sinks, name) && (of("sigs.k8s.io/controller-runtime") || of("k8s.io/client-go/tools")):
		return "Record", "events"
	case slices.Contains(writeVerbs, name) && slices.ContainsFunc(clientPackages, of):
		verb = name
		resource = methodResource(method, selector, parents, info)
	}
	return verb, resource
}

// requestResource returns the resource of a generic request, from the calls of Resource and
// SubResource in the chain that follows the verb.
func requestResource(parents []ast.Node, info *types.Info) (resource string) {
	for i := len(parents) - 2; i > 0; i-- {
		switch parent := parents[i].(type) {
		case *ast.CallExpr:
		case *ast.SelectorExpr:
			call, ok := parents[i-1].(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				continue
			}
			switch value := constantString(info, call.Args[0]); {
			case value == "":
			case parent.Sel.Name == "Resource":
				resource = value
			case parent.Sel.Name == "SubResource":
				resource += "/" + value
			}
		default:
			return resource
		}
	}
	return resource
}

// methodResource returns the resource that a typed method writes: from the name of the
// interface, or from the type of the object.
func methodResource(method *types.Func, selector *ast.SelectorExpr, parents []ast.Node, info *types.Info) string {
	receiver := typeName(method.Signature().Recv().Type())
	kind := strings.TrimSuffix(strings.TrimSuffix(receiver, "Interface"), "Expansion")
	call, _ := parents[max(0, len(parents)-2)].(*ast.CallExpr)
	switch path := method.Pkg().Path(); {
	case strings.HasSuffix(path, "/resourcelock"):
		return "leases"
	case strings.HasPrefix(path, "k8s.io/client-go/tools/"):
		return "events"
	case strings.HasPrefix(path, "sigs.k8s.io/controller-runtime"):
		kind = ""
		if call != nil && len(call.Args) > 1 {
			if object := info.Types[call.Args[1]].Type; object != nil && !types.IsInterface(object) {
				kind = typeName(object)
			}
		}
	}
	if kind == "" {
		return ""
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource + subresourceOf(method.Name(), selector, call, info)
}

// subresourceOf returns "/" and the subresource of a write; "" where there is none.
func subresourceOf(method string, selector *ast.SelectorExpr, call *ast.CallExpr, info *types.Info) string {
	switch method {
	case "UpdateStatus", "ApplyStatus":
		return "/status"
	case "Bind":
		return "/binding"
	case "Evict", "EvictV1", "EvictV1beta1":
		return "/eviction"
	}
	if on, ok := selector.X.(*ast.CallExpr); ok {
		if of, ok := on.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "Status" {
			return "/status"
		}
	}
	if method == "Patch" && call != nil && len(call.Args) > 0 {
		if last := constantString(info, call.Args[len(call.Args)-1]); last != "" {
			return "/" + last
		}
	}
	return ""
}

// constantString returns the value of a constant string; "" for everything else.
func constantString(info *types.Info, e ast.Expr) string {
	value := info.Types[e].Value
	if value == nil || value.Kind() != constant.String {
		return ""
	}
	return constant.StringVal(value)
}

// typeName returns the name of a named type, or of what a pointer points to.
func typeName(t types.Type) string {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
