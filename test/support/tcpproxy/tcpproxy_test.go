package tcpproxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// echo starts a server that answers each line with its own name and the line.
func echo(t *testing.T, name string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintf(c, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

// client is a connection to a proxy.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, p *Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{t, c, bufio.NewReader(c)}
}

func (c client) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
}

// expect expects a line within a generous time.
func (c client) expect(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("got %q and %v, want %q", got, err, want)
	}
}

func start(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := Start(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func TestProxy(t *testing.T) {
	for sentence, play := range map[string]func(*testing.T, *Proxy, client){
		"lines pass": func(_ *testing.T, _ *Proxy, c client) {
			c.say("a")
			c.expect("first a")
		},
		"nothing passes while it is frozen, and all of it when it thaws": func(t *testing.T, p *Proxy, c client) {
			p.Freeze()
			c.say("a")
			c.say("b")
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if got, err := c.lines.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("got %q and %v while it is frozen", got, err)
			}
			p.Thaw()
			c.expect("first a")
			c.expect("first b")
		},
		"delayed lines arrive in order": func(_ *testing.T, p *Proxy, c client) {
			p.Delay(20 * time.Millisecond)
			c.say("a")
			p.Delay(0)
			c.say("b")
			c.expect("first a")
			c.expect("first b")
		},
		"a cut connection ends, and another one can be made": func(t *testing.T, p *Proxy, c client) {
			c.say("a")
			c.expect("first a")
			p.Cut()
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.lines.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("got %v after the cut", err)
			}
			again := connect(t, p)
			again.say("b")
			again.expect("first b")
		},
		"a stranded connection stays open and carries nothing, and another one works": func(t *testing.T, p *Proxy, c client) {
			c.say("a")
			c.expect("first a")
			p.Strand()
			c.say("b")
			again := connect(t, p)
			again.say("c")
			again.expect("first c")
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if got, err := c.lines.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("got %q and %v on the stranded connection", got, err)
			}
		},
		"new connections go to the new server": func(t *testing.T, p *Proxy, c client) {
			c.say("a")
			c.expect("first a")
			p.Retarget(echo(t, "second"))
			again := connect(t, p)
			again.say("b")
			again.expect("second b")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := start(t, echo(t, "first"))
			play(t, p, connect(t, p))
		})
	}
}

func TestClientsOfAServerThatIsAwayAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	c := connect(t, start(t, l.Addr().String()))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.lines.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}
