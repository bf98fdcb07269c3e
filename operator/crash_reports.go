package operator

import (
	"os"

	"github.com/go-logr/logr"

	"github.com/berthdev/berth/controllers/crashreport"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/framework"
)

// crashReports are the crash reports of earlier processes of this container; nil when
// none are kept.
type crashReports struct {
	dir      *crashreport.Dir
	registry framework.Registry
	log      logr.Logger
}

// openCrashReports reads the reports in the folder of --crash-output-dir, and has the
// runtime write a crash of this process there. It logs errors; the process then runs
// without.
func (m *Manager) openCrashReports() *crashReports {
	path, log := m.options.crashDir, m.log
	if path == "" {
		return nil
	}
	c := &crashReports{registry: m.registry, log: log}
	var output *os.File
	var err error
	if c.dir, output, err = crashreport.Open(path, m.processID); err != nil {
		log.Error(err, "Crash reports could not be read or prepared: check --crash-output-dir, and that it is writable", "folder", path)
	}
	if output == nil {
		return c
	}
	defer output.Close()
	if m.crashOutput == nil {
		return c
	}
	if err := m.crashOutput(output); err != nil {
		log.Error(err, "The output of a crash of this process will not be kept", "folder", path)
	}
	return c
}

// crashes returns the crashes of earlier processes, with the plugins on their stacks.
func (c *crashReports) crashes() []history.Crash {
	if c == nil {
		return nil
	}
	var found []history.Crash
	for _, r := range c.dir.Reports {
		found = append(found, history.Crash{Process: r.Process, Time: r.Time, Reason: r.Reason, Plugins: r.Plugins(c.registry)})
	}
	return found
}

// markRecorded keeps later processes from reading the reports again.
func (c *crashReports) markRecorded() {
	if err := c.dir.MarkRecorded(); err != nil {
		c.log.Error(err, "Crash reports could not be marked as recorded; the next process reads them again")
	}
}
