// Command workload is the program in the containers of the suite's pods: its first argument
// says what it does.
//
//	workload pause             wait for SIGTERM; reap children, as a sandbox does
//	workload serve             answer /ok with 200 and /never with 503, on :8080
//	workload exit CODE         exit with that code
//	workload require NAME=V…   exit with 0 if the environment has each of these
//	workload print NAME…       print these variables of the environment, and wait
//	workload write FILE TEXT   append TEXT to FILE, and wait
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	switch args[0] {
	case "pause":
		pause()
		return nil
	case "serve":
		return serve()
	case "exit":
		code, err := strconv.Atoi(strings.Join(args[1:], " "))
		if err != nil {
			return fmt.Errorf("exit wants one number: %w", err)
		}
		os.Exit(code)
	case "require":
		return require(args[1:])
	case "print":
		for _, name := range args[1:] {
			fmt.Printf("%s=%s\n", name, os.Getenv(name))
		}
		pause()
		return nil
	case "write":
		if len(args) != 3 {
			return fmt.Errorf("write wants a file and a text, not %q", args[1:])
		}
		if err := appendTo(args[1], args[2]); err != nil {
			return err
		}
		pause()
		return nil
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// pause returns upon SIGTERM or SIGINT.
func pause() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve() error {
	http.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("/never", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this probe never succeeds", http.StatusServiceUnavailable)
	})
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-failed:
		return err
	case <-stop:
		return server.Close()
	}
}

// require returns an error that names the first variable with another value.
func require(wanted []string) error {
	for _, w := range wanted {
		name, value, _ := strings.Cut(w, "=")
		if got := os.Getenv(name); got != value {
			return fmt.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	return nil
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(file, text); err != nil {
		return err
	}
	return file.Close()
}
