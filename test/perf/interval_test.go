package main

import (
	"math"
	"testing"
)

func TestInterval(t *testing.T) {
	for sentence, c := range map[string]struct {
		seen       []float64
		mean, half float64
	}{
		"of equals everything is":           {[]float64{1, 1, 1}, 1, 0},
		"of ten it is that of nine degrees": {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5.5, 2.1658},
		"of two it is wide":                 {[]float64{0.9, 1.1}, 1, 1.2706},
	} {
		t.Run(sentence, func(t *testing.T) {
			mean, half := interval(c.seen)
			if math.Abs(mean-c.mean) > 1e-4 || math.Abs(half-c.half) > 1e-3 {
				t.Errorf("got %v ± %v, want %v ± %v", mean, half, c.mean, c.half)
			}
		})
	}
}

func TestASureStandingHoldsTheEndOfTheIntervalToTheGoal(t *testing.T) {
	for sentence, c := range map[string]struct {
		seen    []float64
		reached bool
	}{
		"a mean that is surely below is":  {[]float64{1.01, 1.02, 1.00, 1.01}, true},
		"a mean that may be above is not": {[]float64{0.90, 1.12, 0.95, 1.11}, false},
		"one pair alone is not":           {[]float64{1.00}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := made("", c.seen, 1.05, true)
			s.beSure(c.seen)
			if s.Reached != c.reached {
				t.Errorf("%v: reached is %v, want %v (held %v)", c.seen, s.Reached, c.reached, s.Sure)
			}
		})
	}
}
