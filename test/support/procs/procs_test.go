package procs

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestCPUTimeIsUserAndSystemTime(t *testing.T) {
	const stat = "42 (a (very) odd name) S 1 42 42 0 -1 4194304 100 0 0 0 150 25 7 8 20 0 9 0 100 1000 10\n"
	got, err := cpuTime(stat)
	if want := 1750 * time.Millisecond; err != nil || got != want {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	if _, err := cpuTime("42 (short) S 1"); err == nil {
		t.Error("an incomplete line is accepted")
	}
}

func TestThisProcessCanBeRead(t *testing.T) {
	processes := Procs{"test": os.Getpid()}
	before, err := processes.Read()
	if err != nil {
		t.Skip(err)
	}
	made := 0
	after, err := processes.Settle(t.Context(), "test", func(context.Context) (int, error) {
		made = min(made+1, 2)
		return made, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if used := after.Minus(before)["test"]; used < 0 {
		t.Errorf("used %v", used)
	}
	if mib, err := Peak(os.Getpid()); err != nil || mib <= 0 {
		t.Errorf("peak %v and %v", mib, err)
	}
}
