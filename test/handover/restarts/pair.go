package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// leaves is how long a manager may take to end that is asked to: what
// config/manager gives it.
const leaves = 45 * time.Second

// pair are the managers that run: one that leads, one that stands by.
type pair struct {
	cp   *controlplane.ControlPlane
	path string
	runs []*operator.Manager
}

// join starts one more manager and waits until it is ready, whoever leads.
func (p *pair) join(ctx context.Context) error {
	m, err := operator.Start(ctx, p.cp, p.path)
	if err != nil {
		return err
	}
	p.runs = append(p.runs, m)
	return m.Until(ctx, m.Ready)
}

// replace does to the leader what a rolling update does: when another one is
// ready to stand by it is asked to end. It returns when that was.
func (p *pair) replace(ctx context.Context) (asked time.Time, err error) {
	if err := p.join(ctx); err != nil {
		return asked, err
	}
	leader, err := p.leader()
	if err != nil {
		return asked, err
	}
	asked = time.Now()
	return asked, p.end(ctx, leader)
}

// end asks one manager to end, which it must do well and in time.
func (p *pair) end(ctx context.Context, i int) error {
	m := p.runs[i]
	p.runs = append(p.runs[:i:i], p.runs[i+1:]...)
	ctx, cancel := context.WithTimeoutCause(ctx, leaves, fmt.Errorf("its %s are over", leaves))
	defer cancel()
	code, err := p.cp.Ask(ctx, m.Process)
	if err == nil && code != 0 {
		err = fmt.Errorf("a manager that was asked to end exited with %d; see %s", code, m.Log())
	}
	return err
}

// leader is the manager that says so in its log. It leads until it ends.
func (p *pair) leader() (int, error) {
	for i, m := range p.runs {
		text, err := os.ReadFile(m.Log())
		if err != nil {
			return 0, err
		}
		if strings.Contains(string(text), `"msg":"Scheduling"`) {
			return i, nil
		}
	}
	return 0, errors.New("no manager leads")
}
