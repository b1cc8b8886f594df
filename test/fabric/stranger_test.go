package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Words of the wire-up (c/fabric/paths/socket.h) and of the two processes of the
// tool (c/fabric/tool/config.h), as another program would send them.
const (
	wireupVersion = 1
	toolVersion   = 3
	configBytes   = 296
	toolSizes     = 32
)

func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// hello is what a rank says when it has connected.
func hello(version, rank, size uint32) []byte {
	return append([]byte("mtwireup"), words(version, rank, size)...)
}

// block is one contribution to an exchange.
func block(data []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(data))), data...)
}

// config is struct tool_config, of one size, after a change to its words.
func config(change func(word []byte)) []byte {
	c := append(words(1, 1, 10, 2, 100, 0, 0, 0), make([]byte, configBytes-32)...)
	binary.LittleEndian.PutUint64(c[40:], 8) // the one size
	change(c)
	return c
}

// word sets a word of it.
func word(index int, value uint32) func([]byte) {
	return func(c []byte) { binary.LittleEndian.PutUint32(c[4*index:], value) }
}

// both is what rank 0 answers to an exchange: its own part, then the other's.
func both(mine, theirs []byte) []byte {
	return block(append(bytes.Clone(mine), theirs...))
}

// running is mpitrace-fabric, of the build that sees wrong accesses.
type running struct {
	*exec.Cmd
	errors *lines
}

// lines keeps what was said, and tells the port when that is known.
type lines struct {
	mutex sync.Mutex
	text  []byte
	port  chan int
}

func (l *lines) Write(b []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text = append(l.text, b...)
	var port int
	_, after, found := bytes.Cut(l.text, []byte("waiting at port "))
	if n, _ := fmt.Sscanf(string(after), "%d\n", &port); found && n == 1 {
		select {
		case l.port <- port:
		default: // it is known
		}
	}
	return len(b), nil
}

func startTool(t *testing.T, args ...string) running {
	t.Helper()
	return startBuild(t, "address", args...)
}

func startBuild(t *testing.T, build string, args ...string) running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := running{exec.CommandContext(ctx, toolPrograms[build], args...), &lines{port: make(chan int, 1)}}
	c.Stderr = c.errors
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// port is where it listens.
func (c running) port(t *testing.T) int {
	t.Helper()
	select {
	case port := <-c.errors.port:
		return port
	case <-time.After(time.Minute):
		t.Fatal("it does not listen")
		return 0
	}
}

// refuses waits for the tool to end, with its own status and what it has to say.
func (c running) refuses(t *testing.T, want string) {
	t.Helper()
	c.Wait()
	said := string(c.errors.text)
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(said, want) || strings.Contains(said, "Sanitizer") {
		t.Errorf("status %v, %q; want 1 and %q", c.ProcessState, said, want)
	}
}

func dial(t *testing.T, port int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestStrangerComes: to the tool that listens comes another version, somebody who
// disagrees, or one who leaves.
func TestStrangerComes(t *testing.T) {
	for name, c := range map[string]struct {
		says []byte
		want string
	}{
		"another wire-up": {hello(9, 1, 2), "version 9 of the wire-up"},
		"an older tool":   {append(hello(wireupVersion, 1, 2), block(words(toolVersion-1))...), "the other side is version 2 of this tool"},
		"other lengths":   {append(hello(wireupVersion, 1, 2), block(words(toolVersion, 0))...), "rank 1 exchanges 8 bytes, this one 4"},
		"no length":       {append(hello(wireupVersion, 1, 2), 255, 255, 255, 255, 255, 255, 255, 255), "rank 1 exchanges"},
		"leaves":          {hello(wireupVersion, 1, 2), "rank 1 is gone: closed"},
		"leaves later": {bytes.Join([][]byte{hello(wireupVersion, 1, 2), block(words(toolVersion)),
			block(config(word(0, 1)))}, nil), "rank 1 is gone: "},
		"other rails": {bytes.Join([][]byte{hello(wireupVersion, 1, 2), block(words(toolVersion)),
			block(config(word(0, 1))), block(words(77))}, nil), "1 rails here"},
	} {
		t.Run(name, func(t *testing.T) {
			listener := startTool(t, "bandwidth", "--device", "shm", "--listen", "127.0.0.1:0", "--timeout", "20")
			conn := dial(t, listener.port(t))
			if _, err := conn.Write(c.says); err != nil {
				t.Fatal(err)
			}
			conn.(*net.TCPConn).CloseWrite()
			listener.refuses(t, c.want)
		})
	}
}

// TestStrangersPass: who only looks in at the port, says something else, or
// nothing, does not keep the other side away.
func TestStrangersPass(t *testing.T) {
	listener := startTool(t, "pingpong", "--device", "shm", "--size", "8", "--iterations", "10", "--listen", "127.0.0.1:0", "--timeout", "40")
	port := listener.port(t)
	dial(t, port).Close()
	for _, says := range [][]byte{[]byte("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), hello(wireupVersion, 0, 2), hello(wireupVersion, 7, 2), hello(wireupVersion, 1, 3), nil} {
		if _, err := dial(t, port).Write(says); err != nil {
			t.Fatal(err)
		}
	}
	if o := runTool(t, "address", "--device", "shm", "--connect", fmt.Sprint("127.0.0.1:", port), "--timeout", "40"); o.status != 0 {
		t.Errorf("the one that connects: %+v", o)
	}
	if err := listener.Wait(); err != nil {
		t.Errorf("%v\n%s", err, listener.errors.text)
	}
}

// TestStrangersKeepComing: who says nothing makes the wait no longer, however many
// come.
func TestStrangersKeepComing(t *testing.T) {
	listener := startTool(t, "pingpong", "--device", "shm", "--listen", "127.0.0.1:0", "--timeout", "2")
	address := fmt.Sprint("127.0.0.1:", listener.port(t))
	var dialer net.Dialer
	var strangers sync.WaitGroup
	ctx, ended := context.WithCancel(t.Context())
	for range 8 {
		strangers.Go(func() {
			for ctx.Err() == nil {
				if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
					defer conn.Close()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	listener.refuses(t, "1 of 2 ranks came")
	ended()
	strangers.Wait()
}

// TestNoDescriptorForStranger: who connects cannot be accepted, which is said at once.
func TestNoDescriptorForStranger(t *testing.T) {
	listener := startBuild(t, "plain", "pingpong", "--device", "shm", "--listen", "127.0.0.1:0", "--timeout", "20")
	port := listener.port(t)
	none := unix.Rlimit{Cur: 3, Max: 3} // standard input, output and errors, which are there
	if err := unix.Prlimit(listener.Process.Pid, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	dial(t, port)
	listener.refuses(t, "accepting a connection at port")
}

// TestStrangerAsks: the tool that connects is asked for what there is not.
func TestStrangerAsks(t *testing.T) {
	for name, c := range map[string]struct {
		version uint32
		config  []byte
		want    string
	}{
		"an older tool": {toolVersion - 1, nil, "the other side is version 2 of this tool"},
		"mode":          {toolVersion, config(word(0, 99)), "asks for a mode"},
		"alone":         {toolVersion, config(word(0, 0)), "asks for a mode"},
		"sizes":         {toolVersion, config(word(1, toolSizes+1)), "asks for a number of sizes"},
		"size":          {toolVersion, config(word(11, 9)), "asks for a size"},
		"connections":   {toolVersion, config(word(3, 1<<31)), "asks for a number of connections"},
		"operation":     {toolVersion, config(word(5, 9)), "asks for a operation"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			asked := startTool(t, "--device", "shm", "--connect", listener.Addr().String(), "--timeout", "20")
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			theirs := make([]byte, len(hello(0, 0, 0))+len(block(words(0))))
			if _, err := io.ReadFull(conn, theirs); err != nil || !bytes.HasPrefix(theirs, hello(wireupVersion, 1, 2)) {
				t.Fatalf("%v: %q", err, theirs)
			}
			conn.Write(both(words(c.version), words(toolVersion)))
			if c.config != nil {
				conn.Write(both(c.config, c.config))
			}
			asked.refuses(t, c.want)
		})
	}
}

// agreed is how many bytes both have told each other, at least, when they begin to
// exchange what their devices say.
var agreed = len(hello(0, 0, 0)) + len(block(words(0))) + len(block(config(word(0, 0)))) + len(block(words(0)))

// changing copies a stream, and now and then with another bit than came.
func changing(to, from net.Conn, random *rand.Rand, next, apart int) {
	defer to.(*net.TCPConn).CloseWrite()
	some := make([]byte, 4096)
	for {
		n, err := from.Read(some)
		for ; next < n; next += 1 + random.IntN(apart) {
			some[next] ^= 1 << random.IntN(8)
		}
		next -= n
		if _, failed := to.Write(some[:n]); err != nil || failed != nil {
			return
		}
	}
}

// TestChanged: between the two sides somebody changes bits of what they tell each
// other. They end, in time, by themselves: with a message or, where the change did
// not matter, with a result.
func TestChanged(t *testing.T) {
	ended := map[int]int{}
	for seed := uint64(1); seed <= 24; seed++ {
		d, m := devices[seed%2], small[seed/2%uint64(len(small))]
		t.Run(fmt.Sprintf("seed %d %s %s", seed, d.name, m.mode), func(t *testing.T) {
			between, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer between.Close()
			common := []string{"--timeout", "3", "--device", d.name}
			listener := startTool(t, append(append([]string{m.mode, "--listen", "127.0.0.1:0"}, common...), m.args...)...)
			connector := startTool(t, append(common, "--connect", between.Addr().String())...)
			near, err := between.Accept()
			if err != nil {
				t.Fatal(err)
			}
			far := dial(t, listener.port(t))
			random, apart := rand.New(rand.NewPCG(seed, seed)), 20<<(seed%9)
			begin := agreed + random.IntN(apart)
			if seed%4 == 0 {
				begin = random.IntN(agreed)
			}
			go changing(near, far, rand.New(rand.NewPCG(seed, 1)), begin, apart)
			go changing(far, near, rand.New(rand.NewPCG(seed, 2)), begin, apart)
			for _, side := range []running{listener, connector} {
				side.Wait()
				status := side.ProcessState.ExitCode()
				ended[status]++
				if status != 0 && status != 1 || status == 1 && len(side.errors.text) == 0 || bytes.Contains(side.errors.text, []byte("Sanitizer")) {
					t.Errorf("%v\n%s", side.ProcessState, side.errors.text)
				}
			}
			near.Close()
		})
	}
	if ended[0] == 0 || ended[1] == 0 {
		t.Errorf("all changes mattered, or none: %v", ended)
	}
	t.Logf("statuses, and how often: %v", ended)
}
