package metrics

// family is a metric of kube-scheduler 1.37.1.
type family struct {
	name, kind, stability string
	labels                []string
}

// upstream are those that kube-scheduler registers, whatever gates are set, and
// those of each gate, without the groups of pods: the facts of
// k8s.io/kubernetes/pkg/scheduler/metrics.
var upstream = []family{
	{"scheduler_schedule_attempts_total", "counter", "STABLE", []string{"result", "profile"}},
	{"scheduler_scheduling_attempt_duration_seconds", "histogram", "STABLE", []string{"result", "profile"}},
	{"scheduler_preemption_victims", "histogram", "STABLE", nil},
	{"scheduler_preemption_attempts_total", "counter", "STABLE", nil},
	{"scheduler_pending_pods", "gauge", "STABLE", []string{"queue"}},
	{"scheduler_pod_scheduling_attempts", "histogram", "STABLE", nil},
	{"scheduler_framework_extension_point_duration_seconds", "histogram", "STABLE", []string{"extension_point", "status", "profile"}},
	{"scheduler_queue_incoming_pods_total", "counter", "STABLE", []string{"queue", "event"}},

	{"scheduler_scheduling_algorithm_duration_seconds", "histogram", "BETA", nil},
	{"scheduler_goroutines", "gauge", "BETA", []string{"operation"}},
	{"scheduler_pod_scheduling_sli_duration_seconds", "histogram", "BETA", []string{"attempts"}},
	{"scheduler_plugin_execution_duration_seconds", "histogram", "BETA", []string{"plugin", "extension_point", "status"}},
	{"scheduler_permit_wait_duration_seconds", "histogram", "BETA", []string{"result"}},
	{"scheduler_unschedulable_pods", "gauge", "BETA", []string{"plugin", "profile"}},
	{"scheduler_plugin_evaluation_total", "counter", "BETA", []string{"plugin", "extension_point", "profile"}},

	{"scheduler_event_handling_duration_seconds", "histogram", "ALPHA", []string{"event"}},
	{"scheduler_queued_entities", "gauge", "ALPHA", []string{"queue", "type"}},
	{"scheduler_inflight_events", "gauge", "ALPHA", []string{"event"}},
	{"scheduler_batch_attempts_total", "counter", "ALPHA", []string{"profile", "result"}},
	{"scheduler_batch_cache_flushed_total", "counter", "ALPHA", []string{"profile", "reason"}},
	{"scheduler_batch_rescore_attempts_total", "counter", "ALPHA", []string{"profile"}},
	{"scheduler_batch_rescore_duration_seconds", "histogram", "ALPHA", []string{"profile"}},
	{"scheduler_get_node_hint_duration_seconds", "histogram", "ALPHA", []string{"hinted", "profile"}},
	{"scheduler_store_schedule_results_duration_seconds", "histogram", "ALPHA", []string{"profile"}},
	{"scheduler_pod_scheduled_after_flush_total", "counter", "ALPHA", nil},
	{"scheduler_pre_queueing_hint_evaluations_total", "counter", "ALPHA", []string{"plugin", "result"}},
	{"scheduler_queueing_hint_execution_duration_seconds", "histogram", "ALPHA", []string{"plugin", "event", "hint"}},
	{"scheduler_queue_incoming_entities_total", "counter", "ALPHA", []string{"queue", "event", "type"}},
	{"scheduler_cache_size", "gauge", "ALPHA", []string{"type"}},
	{"scheduler_preemption_goroutines_duration_seconds", "histogram", "ALPHA", []string{"result"}},
	{"scheduler_preemption_goroutines_execution_total", "counter", "ALPHA", []string{"result"}},
	{"scheduler_async_api_call_execution_total", "counter", "ALPHA", []string{"call_type", "result"}},
	{"scheduler_async_api_call_execution_duration_seconds", "histogram", "ALPHA", []string{"call_type", "result"}},
	{"scheduler_pending_async_api_calls", "gauge", "ALPHA", []string{"call_type"}},
	{"scheduler_dra_bindingconditions_allocations_total", "counter", "ALPHA", []string{"profile", "driver", "status"}},
	{"scheduler_dra_bindingconditions_wait_duration_seconds", "histogram", "ALPHA", []string{"profile", "driver", "status"}},
}
