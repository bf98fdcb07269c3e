package main

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatATestBinaryPrintsIsRead(t *testing.T) {
	exit := errors.New("exit status 1")
	for sentence, c := range map[string]struct {
		output string
		err    error
		want   result
	}{
		"all pass": {"=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (0.00s)\nPASS\n", nil, result{ran: 1}},
		"the first failure is followed down to its subtest": {
			"=== RUN   TestA\n=== RUN   TestC\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n        --- FAIL: TestA/b/c (0.00s)\n    --- FAIL: TestA/d (0.00s)\n--- FAIL: TestC (0.00s)\n",
			exit, result{red: true, ran: 2, cells: 2, why: "TestA/b/c"},
		},
		"a broken seed says what broke": {
			"=== RUN   TestEvery\n    sim_test.go:47: seed 7: the world ends\n--- FAIL: TestEvery (0.1s)\n", exit,
			result{red: true, ran: 1, why: "seed 7: the world ends"},
		},
		"a crash names the test that ran": {
			"=== RUN   TestA\n=== RUN   TestA/b\npanic: boom\n\ngoroutine 1 [running]:\n", exit,
			result{red: true, ran: 1, why: "TestA/b, which crashes: boom"},
		},
		"a test that does not end is named": {
			"=== RUN   TestA\npanic: test timed out after 3m0s\n\trunning tests:\n\t\tTestA (3m0s)\n", exit,
			result{red: true, ran: 1, why: "TestA, which does not end"},
		},
		"a binary that cannot be started is told as it is": {"", exit, result{red: true, why: "exit status 1"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := read(c.output, c.err)
			c.want.output = c.output
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMutationsAreChosenByName(t *testing.T) {
	for sentence, c := range map[string]struct {
		args []string
		want int
		err  string
	}{
		"none named is all":           {nil, len(table), ""},
		"two":                         {[]string{"--only", "NaiveSwap,ForgetSkipped"}, 2, ""},
		"a name that no mutation has": {[]string{"--only", "Nothing"}, 0, `--only: there is no "Nothing"`},
		"a part of the table":         {[]string{"--from", "3", "--count", "5"}, 5, ""},
		"more than the table has":     {[]string{"--from", "3", "--count", "100000"}, len(table), ""},
		"a part and names":            {[]string{"--only", "NaiveSwap", "--count", "5"}, 0, "--only: must not be set with --count"},
		"a stray word":                {[]string{"NaiveSwap"}, 0, `unexpected argument "NaiveSwap": mutations are named with --only`},
		"a command without":           {[]string{"--", "go", "test"}, 0, ""},
		"a command with two":          {[]string{"--only", "NaiveSwap,ForgetSkipped", "--", "go"}, 0, "--only: 2 mutations, want at most one"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := parseOptions(c.args)
			if len(o.chosen) != c.want || (err == nil) != (c.err == "") {
				t.Errorf("%d mutations, error %v, want %d, %q", len(o.chosen), err, c.want, c.err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("error %q, want %q", err, c.err)
			}
		})
	}
}

// After the last mutation comes the first, so that a number which only grows reaches all of them.
func TestAPartOfTheTableBeginsAnew(t *testing.T) {
	all := []mutant{{name: "a"}, {name: "b"}, {name: "c"}}
	for sentence, c := range map[string]struct {
		from, count uint64
		want        string
	}{
		"the beginning":       {0, 2, "ab"},
		"over the end":        {2, 2, "ca"},
		"far behind the end":  {3_000_001, 1, "b"},
		"more than there are": {1, 9, "bca"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := ""
			for _, m := range rotate(all, c.from, c.count) {
				got += m.name
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
