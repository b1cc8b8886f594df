package top

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// frames is how often a second the terminal is drawn at most: what a key does
// is seen at once, and drawing nothing costs nothing worth mentioning.
const frames = 10

// Terminal is where Run shows its view.
type Terminal struct {
	In  *os.File
	Out *os.File
	Env []string // NO_COLOR and TERM are respected
}

// Run shows the view in a terminal until the user quits or a signal comes, and
// leaves the terminal as it was. It returns how the job ended, empty if it still
// runs, and the signal that ended the view, 0 if none did.
func Run(source Source, o Options, t Terminal) (ended string, by syscall.Signal, err error) {
	before, _ := unix.IoctlGetTermios(int(t.In.Fd()), unix.TCGETS)
	p := tea.NewProgram(&program{model: NewModel(o), reader: &reader{source: source}, interval: o.Interval},
		tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(t.Env), tea.WithFPS(frames), tea.WithoutSignalHandler())
	stop, caught := quitOnSignal(p)
	defer stop()
	last, err := p.Run()
	if before != nil {
		// Bubble Tea has done so, unless it failed half-way.
		err = errors.Join(err, unix.IoctlSetTermios(int(t.In.Fd()), unix.TCSETS, before))
	}
	if s := caught(); s != 0 {
		return "", s, nil // a terminal that hung up takes no restoring
	}
	if err != nil {
		return "", 0, fmt.Errorf("top: %w", err)
	}
	if last, ok := last.(*program); ok {
		ended = last.model.Ended()
	}
	return ended, 0, nil
}

// quitOnSignal has signals that end a program end the view in order; a second
// one does not wait for that.
func quitOnSignal(p *tea.Program) (stop func(), caught func() syscall.Signal) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	var which atomic.Int32
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok && which.CompareAndSwap(0, int32(number)) {
				go p.Quit()
				continue
			}
			p.Kill()
		}
	}()
	return func() { signal.Stop(signals); close(signals) }, func() syscall.Signal { return syscall.Signal(which.Load()) }
}

// program drives a Model as Bubble Tea wants it.
type program struct {
	model    Model
	reader   *reader // used by the command under way only
	interval time.Duration
	reading  bool // a command is under way
	asked    Want // by it, or by the one before
	tick     int  // of the next refresh; older ones do not count
}

// readMsg is what a reading gave.
type readMsg Reading

// tickMsg says that it is time for a refresh.
type tickMsg int

// Init reads for the first time.
func (p *program) Init() tea.Cmd { return p.refresh() }

// refresh reads what is wanted now, unless a reading is under way.
func (p *program) refresh() tea.Cmd {
	if p.reading {
		return nil
	}
	p.reading, p.asked = true, p.model.Want()
	want := p.asked
	return func() tea.Msg {
		return readMsg(p.reader.read(want))
	}
}

// Update takes keys, sizes and readings over.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.model = p.model.Resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+z" {
			return p, tea.Suspend
		}
		p.model = p.model.Key(msg.String(), msg.Text)
	case tea.PasteMsg:
		p.model = p.model.Paste(msg.Content)
	case readMsg:
		p.reading = false
		p.model = p.model.Take(Reading(msg))
		if p.model.Want() != p.asked {
			break // reads what has come to be wanted
		}
		p.tick++
		tick := p.tick
		return p, tea.Tick(pauseAfter(p.interval, msg.Took), func(time.Time) tea.Msg { return tickMsg(tick) })
	case tickMsg:
		if int(msg) == p.tick {
			return p, p.refresh()
		}
		return p, nil
	}
	if p.model.Done() {
		return p, tea.Quit
	}
	if p.model.Want() != p.asked {
		return p, p.refresh()
	}
	return p, nil
}

// View is the screen of the Model, with the terminal's cursor on its line.
func (p *program) View() tea.View {
	text, row := p.model.screenText()
	v := tea.NewView(text)
	v.AltScreen = true
	if row >= 0 {
		v.Cursor = tea.NewCursor(0, row)
		v.Cursor.Blink = false
	}
	return v
}

// Batch writes the ranks of a job as plain text at each refresh until the job
// has ended, or once.
func Batch(source Source, o Options, width int, once bool, out io.Writer) error {
	const lines = 1 << 20
	o.Color = false
	r := &reader{source: source}
	m := NewModel(o).Resize(width, lines)
	for {
		reading := r.read(m.Want())
		m = m.Take(reading)
		if m.cur == nil {
			if m.Ended() != "" {
				return errors.New(m.Ended())
			}
			return errors.Join(errorsOf(m.problems)...)
		}
		if _, err := io.WriteString(out, m.plain()); err != nil {
			return fmt.Errorf("top: %w", err)
		}
		if once || m.Ended() != "" {
			return nil
		}
		time.Sleep(pauseAfter(o.Interval, reading.Took))
	}
}

func errorsOf(texts []string) []error {
	var out []error
	for _, text := range texts {
		out = append(out, errors.New(text))
	}
	return out
}
