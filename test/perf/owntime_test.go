package main

import (
	"testing"
	"time"
)

func TestOwnTimeLeavesOutTheTurnsOfOthers(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	own := ownTime{{at(0), at(2)}, {at(5), at(6)}, {at(9), at(12)}}
	for sentence, c := range map[string]struct{ then, want int }{
		"before the first turn":    {-1, 0},
		"within the first turn":    {1, 1},
		"while another has it":     {4, 2},
		"within a later turn":      {10, 4},
		"after the last":           {20, 6},
		"at the end of one":        {6, 3},
		"at the beginning of one":  {9, 3},
		"when the first one began": {0, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got, want := own.until(at(c.then)), time.Duration(c.want)*time.Second; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
