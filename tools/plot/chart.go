package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// chart is a set of curves with common axes.
type chart struct {
	title, x, y string
	curves      []curve
}

type curve struct {
	name   string
	points plotter.XYs
}

// width and height are the size of a picture.
const width, height = 7 * vg.Inch, 4 * vg.Inch

// save draws the chart. Both axes are logarithmic, since values differ by factors of
// hundreds.
func (c chart) save(path string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Add(plotter.NewGrid())
	for i, curve := range c.curves {
		line, dots, err := plotter.NewLinePoints(curve.points)
		if err != nil {
			return err
		}
		line.Color, dots.Color, dots.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, dots)
		p.Legend.Add(curve.name, line, dots)
	}
	p.Legend.Top = true
	if len(c.curves) > 0 {
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	}
	return p.Save(width, height, path)
}
