package main

import (
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berthdev/berth/test/foreign/balance"
	"github.com/berthdev/berth/test/foreign/clearance"
	"github.com/berthdev/berth/test/foreign/coscheduling"
)

// The plugins that test/foreign runs under Berth are kube-scheduler's as they are.
var _ = frameworkruntime.Registry{
	balance.Name:      balance.New,
	clearance.Name:    clearance.New,
	coscheduling.Name: coscheduling.New,
}
