package v1alpha1

// The default of each field of a profile's spec. The API server applies the same values
// from the CRD; code that reads a profile from a file calls SetDefaults. A test keeps
// the two equal.
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

// SetDefaults sets the fields that s leaves out, as the API server does.
func (s *SchedulingProfileSpec) SetDefaults() {
	setDefault(&s.State, DefaultState)
	setDefault(&s.Base, DefaultBase)
	setDefault(&s.AllowedNamespaces.From, DefaultNamespacesFrom)
	setDefaultPointer(&s.Queue.InitialBackoffSeconds, DefaultInitialBackoffSeconds)
	setDefaultPointer(&s.Queue.MaxBackoffSeconds, DefaultMaxBackoffSeconds)
	setDefaultPointer(&s.Queue.FlushAfterSeconds, DefaultFlushAfterSeconds)
	setDefault(&s.Decisions.Annotate, DefaultAnnotate)
	setDefaultPointer(&s.Decisions.TopScores, DefaultTopScores)
	setDefaultPointer(&s.Decisions.History, DefaultHistory)
	setDefaultPointer(&s.Decisions.PublishSeconds, DefaultPublishSeconds)
	setDefault(&s.Decisions.Explain, DefaultExplain)
	setDefault(&s.Decisions.Detail, DefaultDetail)
	setDefault(&s.Activation, DefaultActivation)
	for i := range s.Extenders {
		e := &s.Extenders[i]
		setDefaultPointer(&e.Weight, DefaultExtenderWeight)
		setDefaultPointer(&e.TimeoutSeconds, DefaultTimeoutSeconds)
		setDefault(&e.FailurePolicy, DefaultFailurePolicy)
	}
}

func setDefault[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

func setDefaultPointer(field **int32, value int32) {
	if *field == nil {
		*field = &value
	}
}
