// Package plugins lists the in-tree plugins, and registers out-of-tree plugins beside
// them.
package plugins

import (
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/scheduler/plugins/defaultpreemption"
	"github.com/berthdev/berth/scheduler/plugins/dynamicresources"
	"github.com/berthdev/berth/scheduler/plugins/gangscheduling"
	"github.com/berthdev/berth/scheduler/plugins/imagelocality"
	"github.com/berthdev/berth/scheduler/plugins/interpodaffinity"
	"github.com/berthdev/berth/scheduler/plugins/nodeaffinity"
	"github.com/berthdev/berth/scheduler/plugins/nodedeclaredfeatures"
	"github.com/berthdev/berth/scheduler/plugins/nodename"
	"github.com/berthdev/berth/scheduler/plugins/nodeports"
	"github.com/berthdev/berth/scheduler/plugins/nodepreferavoidpods"
	"github.com/berthdev/berth/scheduler/plugins/noderesources"
	"github.com/berthdev/berth/scheduler/plugins/nodeunschedulable"
	"github.com/berthdev/berth/scheduler/plugins/nodevolumelimits"
	"github.com/berthdev/berth/scheduler/plugins/podtopologyspread"
	"github.com/berthdev/berth/scheduler/plugins/prioritysort"
	"github.com/berthdev/berth/scheduler/plugins/schedulinggates"
	"github.com/berthdev/berth/scheduler/plugins/serviceaffinity"
	"github.com/berthdev/berth/scheduler/plugins/tainttoleration"
	"github.com/berthdev/berth/scheduler/plugins/volumebinding"
	"github.com/berthdev/berth/scheduler/plugins/volumerestrictions"
	"github.com/berthdev/berth/scheduler/plugins/volumezone"
)

// InTree returns a new registry of all in-tree plugins.
func InTree() framework.Registry {
	registry := framework.Registry{}
	for _, plugin := range []framework.Registration{
		Register(schedulinggates.Name, schedulinggates.New, (*schedulinggates.Plugin)(nil), nil),
		Register(prioritysort.Name, prioritysort.New, (*prioritysort.Plugin)(nil), nil),
		Register(nodename.Name, nodename.New, (*nodename.Plugin)(nil), nil),
		Register(nodeunschedulable.Name, nodeunschedulable.New, (*nodeunschedulable.Plugin)(nil), nil),
		Register(tainttoleration.Name, tainttoleration.New, (*tainttoleration.Plugin)(nil), nil),
		Register(nodeaffinity.Name, nodeaffinity.New, (*nodeaffinity.Plugin)(nil), (*configv1.NodeAffinityArgs)(nil),
			WithValidation(nodeaffinity.Validate)),
		Register(nodeports.Name, nodeports.New, (*nodeports.Plugin)(nil), nil),
		Register(noderesources.FitName, noderesources.NewFit, (*noderesources.Fit)(nil), (*configv1.NodeResourcesFitArgs)(nil),
			WithDefault(noderesources.DefaultFit), WithValidation(noderesources.ValidateFit)),
		Register(volumerestrictions.Name, volumerestrictions.New, (*volumerestrictions.Plugin)(nil), nil),
		Register(nodevolumelimits.Name, nodevolumelimits.New, (*nodevolumelimits.Plugin)(nil), nil),
		Register(volumebinding.Name, volumebinding.New, (*volumebinding.Plugin)(nil), (*configv1.VolumeBindingArgs)(nil),
			WithDefault(volumebinding.Default), WithValidation(volumebinding.Validate)),
		Register(volumezone.Name, volumezone.New, (*volumezone.Plugin)(nil), nil),
		Register(podtopologyspread.Name, podtopologyspread.New, (*podtopologyspread.Plugin)(nil), (*configv1.PodTopologySpreadArgs)(nil),
			WithDefault(podtopologyspread.Default), WithValidation(podtopologyspread.Validate)),
		Register(interpodaffinity.Name, interpodaffinity.New, (*interpodaffinity.Plugin)(nil), (*configv1.InterPodAffinityArgs)(nil),
			WithDefault(interpodaffinity.Default), WithValidation(interpodaffinity.Validate)),
		Register(dynamicresources.Name, dynamicresources.New, (*dynamicresources.Plugin)(nil), (*configv1.DynamicResourcesArgs)(nil),
			WithDefault(dynamicresources.Default), WithValidation(dynamicresources.Validate)),
		Register(defaultpreemption.Name, defaultpreemption.New, (*defaultpreemption.Plugin)(nil), (*configv1.DefaultPreemptionArgs)(nil),
			WithDefault(defaultpreemption.Default), WithValidation(defaultpreemption.Validate)),
		Register(noderesources.BalancedName, noderesources.NewBalanced, (*noderesources.Balanced)(nil),
			(*configv1.NodeResourcesBalancedAllocationArgs)(nil),
			WithDefault(noderesources.DefaultBalanced), WithValidation(noderesources.ValidateBalanced)),
		Register(imagelocality.Name, imagelocality.New, (*imagelocality.Plugin)(nil), nil),
		Register(defaultbinder.Name, defaultbinder.New, (*defaultbinder.Plugin)(nil), nil),
		Register(nodedeclaredfeatures.Name, nodedeclaredfeatures.New, (*nodedeclaredfeatures.Plugin)(nil), nil),
		// As in kube-scheduler by default, no profile has it unless it enables it.
		Register(gangscheduling.Name, gangscheduling.New, (*gangscheduling.Plugin)(nil), nil),
		// kube-scheduler no longer has these plugins. No profile enables them by default.
		Register(serviceaffinity.Name, serviceaffinity.New, (*serviceaffinity.Plugin)(nil), (*serviceaffinity.ServiceAffinityArgs)(nil),
			WithValidation(serviceaffinity.Validate)),
		Register(nodepreferavoidpods.Name, nodepreferavoidpods.New, (*nodepreferavoidpods.Plugin)(nil), nil),
	} {
		plugin.InTree = true
		registry[plugin.Name] = plugin
	}
	return registry
}
