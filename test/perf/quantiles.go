package main

import (
	"slices"
	"time"
)

// quantiles are of durations, in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spread(durations []time.Duration) *quantiles {
	sorted := slices.Sorted(slices.Values(durations))
	if len(sorted) == 0 {
		return nil
	}
	// The least value that so many percent do not exceed.
	at := func(percent int) float64 { return millis(sorted[max(0, (len(sorted)*percent+99)/100-1)]) }
	return &quantiles{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// sample is what is said of several measurements of one thing.
type sample struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

func summarize(values []float64) sample {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return sample{}
	}
	return sample{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1], N: n}
}
