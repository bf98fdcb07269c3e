package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// shapes is what can be measured, in the order of the tables.
var shapes = slices.Concat(usual, special)

// usual are those that whole processes run as well.
var usual = []shape{
	{
		name: "basic", says: "one shape of pod, 100m and 500Mi", goal: 100,
		pod: plain("pod"), old: plain("old"),
	},
	{
		name: "deployments", says: "pods of 200 ReplicaSets in turn, each of another size", goal: 100,
		pod: replica("web"), old: replica("old"), objects: replicaSets, interleaved: true,
	},
	{
		name: "node-affinity", says: "basic, and each wants one of two zones", zones: 3,
		pod: inTwoZones("pod"), old: plain("old"), needs: []string{"NodeAffinity"},
	},
	{
		name: "spread", says: "basic, and evenly over zones, with a skew of 5 at most", goal: 100,
		pod: evenly("pod"), old: plain("old"), needs: []string{"PodTopologySpread"},
	},
	{
		name: "affinity", says: "basic, and in the zone of the others, of which there is one", zones: 1, goal: 100,
		pod: near("pod"), old: near("old"), needs: []string{"InterPodAffinity"},
	},
	{
		name: "anti-affinity", says: "basic, in 50 groups in turn, and on a node without any other of its group", goal: 100,
		pod: grouped("pod"), old: grouped("old"), needs: []string{"InterPodAffinity"}, interleaved: true,
	},
	{
		name: "preferred-affinity", says: "basic, and rather on a node with others", goal: 100,
		pod: rather("pod"), old: rather("old"), needs: []string{"InterPodAffinity"},
	},
	{
		name: "default-spread", says: "basic, of 10 Services in turn, every other pod of a ReplicaSet too", goal: 100,
		pod: served("pod"), old: served("old"), objects: services, needs: []string{"PodTopologySpread"}, interleaved: true,
	},
	{
		name: "thousand", says: "1,000 sizes of pod in turn", goal: 50,
		pod: distinct("pod"), old: plain("old"), interleaved: true,
	},
	{
		name: "mixed", says: "in turn basic, spread, affinity, anti-affinity in 50 groups and deployments", goal: 50,
		pod: mixed("pod"), old: mixed("old"), objects: replicaSets, interleaved: true,
	},
	{
		name: "full", says: "basic, and four nodes of five are full", existing: 4000, goal: 50,
		pod: plain("pod"), old: filling("old"), on: scattered,
	},
}

// special are those that say how the algorithms play them.
var special = []shape{
	{
		name: "large", says: "basic on 20,000 nodes in 100 zones", nodes: 20000, zones: 100, existing: 20000,
		pod: plain("pod"), old: plain("old"), game: &game{},
	},
	{
		name: "all-nodes", says: "basic; Berth scores all nodes, kube-scheduler its sample", goal: 50,
		pod: plain("pod"), old: plain("old"), game: &game{everyNode: true},
	},
	{
		name: "preempt", says: "1,000 pods of 3 CPU that matter more than the four on each node", existing: 20000, count: 1000, goal: 10,
		pod: greedy("pod"), old: humble("old"), needs: []string{"DefaultPreemption"}, game: &game{preempt: true},
	},
	{
		name: "million", says: "a million pods on 100,000 nodes in 100 zones, with GOMEMLIMIT=3500MiB", nodes: 100000, zones: 100, existing: 1, count: 1000000,
		pod: plain("pod"), old: plain("old"), game: &game{solo: true, memory: "3500MiB"},
	},
}

// scattered puts the i-th pod on the i-th node of an order that looks random.
func scattered(i, nodes int) int { return i * 7919 % nodes }

// zoneKey is what zones are told apart by.
const zoneKey = corev1.LabelTopologyZone
