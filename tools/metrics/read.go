package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// metric is a metric as the code defines it.
type metric struct {
	name, kind, help string
	labels           []string
	// buckets are the arguments of ExponentialBuckets of a histogram; nil for other metrics.
	buckets []float64
}

// metricFolders are the folders with code that defines metrics.
var metricFolders = []string{"scheduler", "controllers", "operator"}

// constructorKinds are the constructors and the kinds of metrics that they create.
var constructorKinds = map[string]string{
	"NewCounter": "counter", "NewCounterVec": "counter", "NewGauge": "gauge", "NewGaugeVec": "gauge",
	"NewHistogram": "histogram", "NewHistogramVec": "histogram",
}

// readMetrics returns the metrics that code below root defines.
func readMetrics(root string) ([]metric, error) {
	var all []metric
	for _, folder := range metricFolders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			found, err := metricsInFile(file)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, found...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// metricsInFile returns the metrics of one file. A Desc must be used in the file that
// defines it, since its kind is read from there.
func metricsInFile(file *ast.File) (found []metric, err error) {
	collected := descKinds(file)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isSpec := n.(*ast.ValueSpec)
		if !isSpec || err != nil {
			return err == nil
		}
		for i, value := range spec.Values {
			call, function := prometheusCall(value)
			var m metric
			switch kind, makes := constructorKinds[function]; {
			case makes:
				m, err = readConstructor(call, kind)
			case function == "NewDesc":
				m, err = readDesc(call, collected[spec.Names[i].Name])
			default:
				continue
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", spec.Names[i].Name, err)
				return false
			}
			if strings.HasPrefix(m.name, "berth_") || strings.HasPrefix(m.name, "scheduler_") {
				found = append(found, m)
			}
		}
		return true
	})
	return found, err
}

// prometheusCall returns the call of a function of the Prometheus client, and its name.
func prometheusCall(e ast.Expr) (call *ast.CallExpr, function string) {
	call, isCall := e.(*ast.CallExpr)
	if !isCall {
		return nil, ""
	}
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "prometheus" {
			return call, selector.Sel.Name
		}
	}
	return nil, ""
}

// descKinds returns the kinds of metrics that are created with each Desc, by name of the
// variable.
func descKinds(file *ast.File) map[string]string {
	kinds := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		if call, function := prometheusCall(e); function == "MustNewConstMetric" {
			desc, named := call.Args[0].(*ast.Ident)
			value, chosen := call.Args[1].(*ast.SelectorExpr)
			if named && chosen {
				kinds[desc.Name] = strings.ToLower(strings.TrimSuffix(value.Sel.Name, "Value"))
			}
		}
		return true
	})
	return kinds
}

// readConstructor reads a call of NewCounterVec and similar functions.
func readConstructor(call *ast.CallExpr, kind string) (m metric, err error) {
	m.kind = kind
	options, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return m, fmt.Errorf("its options are not a literal")
	}
	for _, element := range options.Elts {
		field := element.(*ast.KeyValueExpr)
		switch field.Key.(*ast.Ident).Name {
		case "Name":
			m.name, err = stringLiteral(field.Value)
		case "Help":
			m.help, err = stringLiteral(field.Value)
		case "Buckets":
			m.buckets, err = exponentialBuckets(field.Value)
		default:
			err = fmt.Errorf("its %s is not supported", field.Key)
		}
		if err != nil {
			return m, err
		}
	}
	if len(call.Args) > 1 {
		m.labels, err = stringLiterals(call.Args[1])
	}
	return m, err
}

// readDesc reads a call of NewDesc.
func readDesc(call *ast.CallExpr, kind string) (m metric, err error) {
	if m.kind = kind; kind == "" {
		return m, fmt.Errorf("no metric in its file is created with it")
	}
	if m.name, err = stringLiteral(call.Args[0]); err != nil {
		return m, err
	}
	if m.help, err = stringLiteral(call.Args[1]); err != nil {
		return m, err
	}
	m.labels, err = stringLiterals(call.Args[2])
	return m, err
}

func stringLiteral(e ast.Expr) (string, error) {
	if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		return strconv.Unquote(literal.Value)
	}
	return "", fmt.Errorf("a text is not a literal")
}

func stringLiterals(e ast.Expr) (all []string, err error) {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil, fmt.Errorf("its labels are not a literal")
	}
	for _, element := range list.Elts {
		label, err := stringLiteral(element)
		if err != nil {
			return nil, err
		}
		all = append(all, label)
	}
	return all, nil
}

// exponentialBuckets reads start, factor and count of ExponentialBuckets.
func exponentialBuckets(e ast.Expr) (numbers []float64, err error) {
	call, function := prometheusCall(e)
	if function != "ExponentialBuckets" {
		return nil, fmt.Errorf("its buckets are not exponential")
	}
	for _, argument := range call.Args {
		literal, ok := argument.(*ast.BasicLit)
		if !ok {
			return nil, fmt.Errorf("its buckets are not literals")
		}
		number, err := strconv.ParseFloat(literal.Value, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}
