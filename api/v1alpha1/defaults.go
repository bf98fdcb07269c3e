package v1alpha1

// What a field of a profile's spec means when it is left out. The API server
// fills these in from the CRD; whoever reads a profile from a file uses
// SetDefaults. A test holds the two together.
const (
	DefaultState                       = StateActive
	DefaultBase                        = BaseDefault
	DefaultInitialBackoffSeconds int32 = 1
	DefaultMaxBackoffSeconds     int32 = 10
	DefaultFlushAfterSeconds     int32 = 300
	DefaultAnnotate                    = Enabled
	DefaultTopScores             int32 = 3
	DefaultHistory               int32 = 10
	DefaultPublishSeconds        int32 = 5
	DefaultExplain                     = ExplainRefusals
	DefaultDetail                      = DetailReasons
	DefaultActivation                  = ActivationAutomatic
	DefaultNamespacesFrom              = NamespacesAll
	DefaultExtenderWeight        int32 = 1
	DefaultTimeoutSeconds        int32 = 5
	DefaultFailurePolicy               = FailurePolicyFail
)

// SetDefaults fills in what s leaves out, as the API server does.
func (s *SchedulingProfileSpec) SetDefaults() {
	fill(&s.State, DefaultState)
	fill(&s.Base, DefaultBase)
	fill(&s.AllowedNamespaces.From, DefaultNamespacesFrom)
	fillPointer(&s.Queue.InitialBackoffSeconds, DefaultInitialBackoffSeconds)
	fillPointer(&s.Queue.MaxBackoffSeconds, DefaultMaxBackoffSeconds)
	fillPointer(&s.Queue.FlushAfterSeconds, DefaultFlushAfterSeconds)
	fill(&s.Decisions.Annotate, DefaultAnnotate)
	fillPointer(&s.Decisions.TopScores, DefaultTopScores)
	fillPointer(&s.Decisions.History, DefaultHistory)
	fillPointer(&s.Decisions.PublishSeconds, DefaultPublishSeconds)
	fill(&s.Decisions.Explain, DefaultExplain)
	fill(&s.Decisions.Detail, DefaultDetail)
	fill(&s.Activation, DefaultActivation)
	for i := range s.Extenders {
		e := &s.Extenders[i]
		fillPointer(&e.Weight, DefaultExtenderWeight)
		fillPointer(&e.TimeoutSeconds, DefaultTimeoutSeconds)
		fill(&e.FailurePolicy, DefaultFailurePolicy)
	}
}

func fill[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

func fillPointer(field **int32, value int32) {
	if *field == nil {
		*field = &value
	}
}
