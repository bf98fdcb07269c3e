package main

import (
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// panel is one of the dashboard, with its queries as Grafana would ask them.
type panel struct {
	title   string
	queries []string
}

// panels are those of a dashboard that ask for something.
func panels(path string) (all []panel) {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	Expect(json.Unmarshal(text, &dashboard)).To(Succeed())
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		Expect(p.Targets).NotTo(BeEmpty(), p.Title)
		asks := panel{title: p.Title}
		for _, target := range p.Targets {
			// Grafana takes four times the distance of scrapes at least.
			asks.queries = append(asks.queries, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
		all = append(all, asks)
	}
	return all
}
