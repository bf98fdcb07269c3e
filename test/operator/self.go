package operator

import (
	"context"
	"os"

	"github.com/berthdev/berth/test/controlplane"
)

// AsManager, in the environment of a suite's binary, makes it the manager and not its
// tests.
const AsManager = "BERTH_TEST_IS_MANAGER"

// Main is the TestMain of a suite whose binary is a manager as well, with plugins that
// the tests need: manager is its main function, and what is tested is built as the
// tests are.
func Main(tests interface{ Run() int }, manager func()) {
	if os.Getenv(AsManager) != "" {
		manager()
		return
	}
	os.Exit(tests.Run())
}

// StartSelf is Start for the manager that Main was given.
func StartSelf(ctx context.Context, cp *controlplane.ControlPlane, flags ...string) (*Manager, error) {
	if err := os.Setenv(AsManager, "yes"); err != nil {
		return nil, err
	}
	defer os.Unsetenv(AsManager)
	return Start(ctx, cp, os.Args[0], flags...)
}
