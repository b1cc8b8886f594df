package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios replays testdata/scenarios, each showing what is refused, with
// which words, and what is in effect where several sources meet. -rewrite
// writes the expected output anew.
//
//	line [name=NAME]     read the short form, as the weakest source so far
//	file [name=NAME]     read a file, likewise
//	print                the sources again in the short form
//	show                 what is in effect: what somebody stated, and the rules
//	lines                what the ranks get, without the hash
//	choose NAME          by the message in the input: KEY=VALUE lines
//	devices              compare with the devices in the input: NAME [PORT...] [no-ud] [down]
//	reset                forget all sources
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				if !errors.Is(err, ErrPolicy) {
					t.Errorf("%s: %v does not wrap ErrPolicy", d.Pos, err)
				}
				return out + err.Error() + "\n"
			}
			return out
		})
	})
}

type scenario struct{ layers []*Layer }

func (s *scenario) run(t *testing.T, d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "line", "file":
		name := d.Cmd
		if d.HasArg("name") {
			d.ScanArgs(t, "name", &name)
		}
		l, err := ParseString(name, d.Input)
		if d.Cmd == "file" {
			l, err = ParseJSON(name, []byte(d.Input))
		}
		if err != nil {
			return "", err
		}
		s.layers = append(s.layers, l)
		_, err = Resolve(s.layers...)
		resolveFuzzed(t, s.layers...)
		return "", err
	case "print":
		var b strings.Builder
		for _, l := range s.layers {
			text, err := l.String()
			if err != nil {
				return b.String(), err
			}
			b.WriteString(text + "\n")
		}
		return b.String(), nil
	case "reset":
		s.layers = nil
		return "", nil
	}
	e, err := Resolve(s.layers...)
	if err != nil {
		return "", err
	}
	switch d.Cmd {
	case "show":
		return stated(e), nil
	case "lines":
		lines := strings.Split(e.Lines(), "\n")
		return strings.Join(append(lines[:1:1], lines[2:]...), "\n"), nil
	case "choose":
		return choose(t, e, d), nil
	case "devices":
		return "", e.CheckDevices(devices(d.Input))
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return "", nil
}

// stated is Table without the settings that nobody has stated, and the hash.
func stated(e *Effective) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(e.Table(), "\n") {
		if strings.TrimSpace(line) != "" && !strings.HasSuffix(line, BuiltIn+"\n") && !strings.HasPrefix(line, "Hash") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func choose(t *testing.T, e *Effective, d *datadriven.TestData) string {
	m := Message{}
	for _, line := range strings.Split(d.Input, "\n") {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "operation":
			m.Operation = value
		case "communicator":
			m.Communicator = value
		case "processes":
			m.Processes, _ = bytesOf(value)
		case "bytes":
			m.Bytes, _ = bytesOf(value)
		case "peer":
			m.Peer = value
		case "site":
			m.Sites = append(m.Sites, value)
		default:
			d.Fatalf(t, "unknown key %s", key)
		}
	}
	c := e.Choose(d.CmdArgs[0].Key, &m)
	by := "top level"
	if c.Rule >= 0 {
		by = "rule " + e.Rules[c.Rule].Name
	}
	return fmt.Sprintf("%s (%s)\n", strings.Join(c.Values(), ", "), by)
}

func devices(input string) []Device {
	var out []Device
	for _, line := range strings.Split(input, "\n") {
		d := Device{Up: true, Datagrams: true}
		for _, word := range strings.Fields(line) {
			switch word {
			case "down":
				d.Up = false
			case "no-ud":
				d.Datagrams = false
			default:
				d.Names = append(d.Names, word)
			}
		}
		out = append(out, d)
	}
	return out
}
