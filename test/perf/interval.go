package main

import "math"

// student are the 0.975 quantiles of Student's distribution with 1, 2, ... degrees
// of freedom; beyond them it is nearly the normal one.
var student = []float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
}

// interval returns the mean of seen, and how far from it the mean of all that
// could be seen lies at most, with 95 % of certainty. It takes two at least.
func interval(seen []float64) (mean, half float64) {
	n := float64(len(seen))
	for _, v := range seen {
		mean += v / n
	}
	squares := 0.0
	for _, v := range seen {
		squares += (v - mean) * (v - mean)
	}
	t := 1.96
	if df := len(seen) - 1; df <= len(student) {
		t = student[df-1]
	}
	return mean, t * math.Sqrt(squares/(n-1)/n)
}
