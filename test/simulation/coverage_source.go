package simulation

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// namesInSources reads the Go files of a folder, without tests, and returns what they count
// by a name of their own, and the verbs of the requests that they send: so a table knows what
// exists, and not only what was met.
func namesInSources(folder string) (counts, verbs []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, nil, fmt.Errorf("finding the sources: %w", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the sources: %w", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			switch selector, _ := call.Fun.(*ast.SelectorExpr); {
			case selector == nil:
			case selector.Sel.Name == "count" && len(call.Args) == 1:
				counts = appendLiteral(counts, call.Args[0])
			case selector.Sel.Name == "call" && len(call.Args) == 4:
				verbs = appendLiteral(verbs, call.Args[1])
			}
			return true
		})
	}
	slices.Sort(counts)
	slices.Sort(verbs)
	return slices.Compact(counts), slices.Compact(verbs), nil
}

// appendLiteral appends the value of a string literal; any other expression is left out.
func appendLiteral(to []string, e ast.Expr) []string {
	literal, is := e.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return to
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return to
	}
	return append(to, value)
}
