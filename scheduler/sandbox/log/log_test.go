package log

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// opSummary is the part of an op that the tests compare.
type opSummary struct {
	Line           int
	Kind           Kind
	Name, UID, CPU string
}

func readSummaries(t *testing.T, text string) []opSummary {
	t.Helper()
	ops, err := readAll(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var all []opSummary
	for _, op := range ops {
		one := opSummary{Line: op.Line, Kind: op.Kind, Name: op.Object.GetNamespace() + "/" + op.Object.GetName(), UID: string(op.Object.GetUID())}
		if pod, ok := op.Object.(*v1.Pod); ok && len(pod.Spec.Containers) > 0 {
			one.CPU = pod.Spec.Containers[0].Resources.Requests.Cpu().String()
		}
		all = append(all, one)
	}
	return all
}

func TestReadingALog(t *testing.T) {
	tests := map[string]struct {
		text string
		want []opSummary
	}{
		"an empty log holds nothing": {},
		"blank lines are skipped, and counted": {
			text: "\n{\"op\":\"apply\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}}\n",
			want: []opSummary{{Line: 2, Kind: Apply, Name: "/n1"}},
		},
		"the last line needs no end": {
			text: `{"op":"delete","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}}`,
			want: []opSummary{{Line: 1, Kind: Delete, Name: "/n1"}},
		},
		"a scheduled object is a pod, by default in namespace default and with its name as UID": {
			text: `{"op":"schedule","object":{"metadata":{"name":"p"}}}`,
			want: []opSummary{{Line: 1, Kind: Schedule, Name: "default/p", UID: "default/p"}},
		},
		"the pods of a batch differ in name and UID": {
			text: `{"op":"schedule-batch","count":2,"object":{"metadata":{"name":"p","namespace":"a","uid":"u"},` +
				`"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}]}}}`,
			want: []opSummary{
				{Line: 1, Kind: Schedule, Name: "a/p-0", UID: "u-0", CPU: "500m"},
				{Line: 1, Kind: Schedule, Name: "a/p-1", UID: "u-1", CPU: "500m"},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, readSummaries(t, test.text)); diff != "" {
				t.Errorf("ops (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestAnErrorNamesTheLineAndTheField(t *testing.T) {
	tests := map[string]struct {
		line, want string
	}{
		"invalid JSON":                          {`{"op":`, "line 2: is not JSON: unexpected end of JSON input"},
		"a start for an op other than schedule": {`{"op":"apply","start":1,"object":{}}`, "line 2: start: belongs to schedule only"},
		"a start before the first node":         {`{"op":"schedule","start":-1,"object":{}}`, "line 2: start: must be from 0 to 2147483647, is -1"},
		"a start beyond every node":             {`{"op":"schedule","start":2147483648,"object":{}}`, "line 2: start: must be from 0 to 2147483647, is 2147483648"},
		"an unknown op": {`{"op":"bind","object":{}}`,
			`line 2: op: must be apply, delete, schedule or schedule-batch, is "bind"`},
		"an unknown key": {`{"op":"apply","objekt":{}}`, "line 2: objekt: unknown field"},
		"no object":      {`{"op":"apply"}`, "line 2: object: is missing"},
		"no kind":        {`{"op":"apply","object":{"metadata":{"name":"n"}}}`, "line 2: object.kind: is missing"},
		"an unknown kind": {`{"op":"apply","object":{"apiVersion":"v1","kind":"Nod","metadata":{"name":"n"}}}`,
			`line 2: object.kind: there is no Nod in apiVersion "v1"`},
		"a schedule of a node": {`{"op":"schedule","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}}`,
			"line 2: object.kind: must be Pod, is Node: nothing else is scheduled"},
		"a schedule of a pod with a node": {`{"op":"schedule","object":{"metadata":{"name":"p"},"spec":{"nodeName":"n"}}}`,
			`line 2: object.spec.nodeName: must be empty, is "n": the pod has its node`},
		"no name": {`{"op":"schedule","object":{}}`, "line 2: object.metadata.name: is missing"},
		"an unknown field of a pod": {`{"op":"schedule","object":{"metadata":{"name":"p"},"spec":{"nodeNam":"n"}}}`,
			"line 2: object.spec.nodeNam: unknown field"},
		"an invalid quantity": {
			`{"op":"schedule","object":{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"},{"name":"b","resources":{"requests":{"cpu":"much"}}}]}}}`,
			"line 2: object.spec.containers[1].resources.requests.cpu: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
		},
		"a batch without a count": {`{"op":"schedule-batch","object":{"metadata":{"name":"p"}}}`,
			"line 2: count: is missing: say how many copies"},
		"a batch of none": {`{"op":"schedule-batch","count":0,"object":{"metadata":{"name":"p"}}}`,
			"line 2: count: must be at least 1, is 0"},
		"a count without a batch": {`{"op":"schedule","count":2,"object":{"metadata":{"name":"p"}}}`,
			"line 2: count: belongs to schedule-batch only"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(strings.NewReader("\n" + test.line + "\n"))
			if err == nil || err.Error() != test.want {
				t.Errorf("error:\n got %v\nwant %s", err, test.want)
			}
			var lineErr *Error
			if !errors.As(err, &lineErr) || lineErr.Line != 2 {
				t.Errorf("the error is a %T, want an *Error in line 2", err)
			}
		})
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	text := `{"op":"apply","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}}` + "\n"
	ops, err := readAll(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteAll(&out, ops); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, out.String()); diff != "" {
		t.Errorf("the log written again (-want,+got):\n%s", diff)
	}
	if _, err := NewReader(strings.NewReader("")).Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of an empty log is %v, want io.EOF", err)
	}
}

// readAll reads a whole log.
func readAll(r io.Reader) (ops []Op, err error) {
	reader := NewReader(r)
	for {
		op, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return ops, nil
		}
		if err != nil {
			return ops, err
		}
		ops = append(ops, op)
	}
}
