package main

import (
	"encoding/json"
	"fmt"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
)

// curves are values over time, as `make night` writes them.
type curves struct {
	Title, X, Y string
	Curves      map[string]plotter.XYs
}

// UnmarshalJSON reads the points, which are pairs.
func (c *curves) UnmarshalJSON(text []byte) error {
	var read struct {
		Title, X, Y string
		Curves      map[string][][2]float64
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	c.Title, c.X, c.Y, c.Curves = read.Title, read.X, read.Y, map[string]plotter.XYs{}
	for name, points := range read.Curves {
		for _, p := range points {
			c.Curves[name] = append(c.Curves[name], plotter.XY{X: p[0], Y: p[1]})
		}
	}
	return nil
}

// drawCurves draws a file of curves with linear axes.
func drawCurves(file, svg string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c curves
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Add(plotter.NewGrid())
	for i, curve := range sortedCurves(c.Curves) {
		line, err := plotter.NewLine(curve.points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		p.Add(line)
		p.Legend.Add(curve.name, line)
	}
	p.Y.Min, p.Y.Max = min(p.Y.Min, 90), max(p.Y.Max, 120) // a slope of nothing looks like one
	p.Legend.Top = true
	return p.Save(width, height, svg)
}
