package operator

import (
	"io"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// newLogger returns a logger that writes lines of JSON up to a verbosity.
func newLogger(to io.Writer, verbosity int8) logr.Logger {
	return zap.New(zap.WriteTo(to), zap.Level(zapcore.Level(-verbosity)),
		zap.RawZapOpts(uberzap.WrapCore(func(core zapcore.Core) zapcore.Core { return lazyCore{core} })))
}

// lazyCore encodes the values of a logger when the logger writes its first line: each attempt
// to schedule a pod has a logger of its own, and most of them write none.
type lazyCore struct{ zapcore.Core }

// With implements zapcore.Core. The core of zapcore.NewLazyWith alone would encode the values at
// the next With.
func (c lazyCore) With(fields []zapcore.Field) zapcore.Core {
	return lazyCore{zapcore.NewLazyWith(c.Core, fields)}
}
