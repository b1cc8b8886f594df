package otf2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/mpitrace/mpitrace/internal/libexec"
)

// Program is the name of the program that writes archives.
const Program = "mpitrace-otf2"

// ErrNoProgram tells that mpitrace-otf2 is not installed.
var ErrNoProgram = errors.New("OTF2 archives are written by " + Program + ", which is not installed: it is built where the OTF2 library is " +
	"(on Debian: apt-get install libopen-trace-format2-dev pkg-config, then make build); --format perfetto needs nothing")

// Find looks for mpitrace-otf2 as libexec.Find does.
func Find(executable string) (string, error) {
	path, found := libexec.Find(executable, Program)
	if !found {
		return "", ErrNoProgram
	}
	return path, nil
}

// process is a running mpitrace-otf2.
type process struct {
	cmd            *exec.Cmd
	in             io.WriteCloser
	stdout, stderr bytes.Buffer
}

func start(program, dir, name string) (*process, error) {
	p := &process{cmd: exec.Command(program, dir, name)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return p, nil
}

// wait ends the input and waits; failed is why writing to it failed, if it did.
// The program ends when its input does.
func (p *process) wait(failed error) error {
	p.in.Close()
	err := p.cmd.Wait()
	if said := strings.TrimSpace(p.stderr.String()); err != nil && said != "" {
		return fmt.Errorf("%s (%w)", said, err)
	}
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Program, err)
	}
	return nil
}
