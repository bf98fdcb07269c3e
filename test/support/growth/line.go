package growth

import (
	"fmt"
	"math"
	"time"
)

// Line is a straight line through values over time.
type Line struct {
	// PerHour is how much the values grow in an hour; Low and High are the ends of its 95 %
	// confidence interval. Mean is the mean of the values.
	PerHour float64 `json:"perHour"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Mean    float64 `json:"mean"`
	// Minutes is the time between the first value and the last one.
	Minutes float64 `json:"minutes"`
}

// leastValues is the number of values below which no line is fitted.
const leastValues = 8

// Fit returns the line with the least squared residuals; false where there are too few values.
// Values that follow each other are alike: the interval is wider by the correlation of
// neighbouring residuals than one of independent values.
func Fit(seconds, values []float64) (Line, bool) {
	n := float64(len(values))
	if len(values) < leastValues {
		return Line{}, false
	}
	meanX, meanY := mean(seconds), mean(values)
	var sxx, sxy float64
	for i := range values {
		dx := seconds[i] - meanX
		sxx, sxy = sxx+dx*dx, sxy+dx*(values[i]-meanY)
	}
	if sxx == 0 {
		return Line{}, false
	}
	slope := sxy / sxx
	residuals := make([]float64, len(values))
	squares := 0.0
	for i := range values {
		residuals[i] = values[i] - meanY - slope*(seconds[i]-meanX)
		squares += residuals[i] * residuals[i]
	}
	alike := correlation(residuals)
	deviation := math.Sqrt(squares/(n-2)/sxx) * math.Sqrt((1+alike)/(1-alike))
	half := quantile(n-2) * deviation
	const hour = 3600
	return Line{
		PerHour: slope * hour, Low: (slope - half) * hour, High: (slope + half) * hour,
		Mean: meanY, Minutes: (seconds[len(seconds)-1] - seconds[0]) / 60,
	}, true
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// correlation returns the correlation of each residual with the next, between 0 and 0.95.
func correlation(residuals []float64) float64 {
	var both, all float64
	for i, r := range residuals {
		all += r * r
		if i > 0 {
			both += r * residuals[i-1]
		}
	}
	if all == 0 {
		return 0
	}
	return min(max(both/all, 0), 0.95)
}

// quantile returns the 97.5 % quantile of Student's distribution, by its expansion around the
// normal distribution; with 6 degrees of freedom, the fewest of Fit, it is 2.44 instead of 2.45.
func quantile(degrees float64) float64 {
	const z = 1.959964
	z3, z5 := z*z*z, z*z*z*z*z
	return z + (z3+z)/(4*degrees) + (5*z5+16*z3+3*z)/(96*degrees*degrees)
}

// Join returns one line for several runs: the mean of their slopes, weighted by the inverse of
// their variances, and of their values, by time.
func Join(lines []Line) (Line, bool) {
	const z = 1.959964
	var joined Line
	var weights, slopes, values float64
	for _, l := range lines {
		// A quantity that never changes has an interval of no width; it still is one run.
		half := max((l.High-l.Low)/2, 1e-9)
		w := z * z / (half * half)
		weights, slopes = weights+w, slopes+w*l.PerHour
		joined.Minutes, values = joined.Minutes+l.Minutes, values+l.Minutes*l.Mean
	}
	if weights == 0 || joined.Minutes == 0 {
		return Line{}, false
	}
	half := z / math.Sqrt(weights)
	joined.PerHour, joined.Mean = slopes/weights, values/joined.Minutes
	joined.Low, joined.High = joined.PerHour-half, joined.PerHour+half
	return joined, true
}

// LeastTime is the time that a line must cover to be a finding: caches fill in the first minutes,
// and an hour is extrapolated from them.
const LeastTime = 15 * time.Minute

// Grows says that the values grow by more than bound in an hour, as far as the line can tell: its
// whole interval is above the bound.
func (l Line) Grows(bound float64) bool {
	return l.Minutes >= LeastTime.Minutes() && l.Low > bound
}

// String returns the slope and its interval.
func (l Line) String() string {
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f)", l.PerHour, l.Low, l.High)
}
