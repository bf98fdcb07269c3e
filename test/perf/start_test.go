package main

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"testing"
)

func TestTheLiveHeapIsWhatTheRuntimeCounts(t *testing.T) {
	kept := make([]byte, 64<<20)
	runtime.GC()
	var profile bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	mib, err := heapAlloc(profile.Bytes())
	if err != nil || mib < 64 || mib > 128 {
		t.Errorf("with 64 MiB in use: %.1f MiB, %v", mib, err)
	}
	runtime.KeepAlive(kept)
	if _, err := heapAlloc([]byte("heap profile: 0: 0 [0: 0] @ heap/1048576\n")); err == nil {
		t.Error("a profile without HeapAlloc is read")
	}
}
