package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/regcache"
)

// nothing is a registrar that does nothing: what remains is the cache's own.
type nothing struct{}

func (nothing) Register(uint64, uint64) (regcache.Handle, error) { return regcache.Handle{}, nil }
func (nothing) Deregister(regcache.Handle)                       {}

// newCore makes a cache whose memory never changes; off, one without a monitor,
// which registers for every use.
func newCore(r regcache.Registrar, bytes uint64, regions int, off bool) (*regcache.Core, error) {
	var watched regcache.Generations
	return regcache.NewCore(regcache.Options{
		Registrar: r, MaxBytes: bytes, MaxRegions: regions,
		Generations: func() *regcache.Generations {
			if off {
				return nil
			}
			return &watched
		},
	})
}

func use(c *regcache.Core, addr, length uint64) error {
	region, err := c.Acquire(addr, length)
	if err != nil {
		return err
	}
	return c.Release(region)
}

// perCall times n calls and returns nanoseconds a call.
func perCall(n int, call func(i int) error) (float64, error) {
	begin := time.Now()
	for i := range n {
		if err := call(i); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n), nil
}

// typical is the lower quartile: other programs only add.
func typical(figures []float64) float64 { return stats.Quantile(figures, 0.25) }

// measureCore times the cache itself, with a registrar that does nothing.
func measureCore(o options, r *report) error {
	const n, apart, regions = 100000, 1 << 21, 1000
	type loop struct {
		name   string
		step   uint64 // between buffers
		buffer int    // buffers in turn
	}
	loops := []loop{{"hit, one buffer", apart, 1}, {"hit, 1000 buffers", apart, regions}, {"miss and eviction", apart, 2 * regions}}
	times := map[string][]float64{}
	for range o.repetitions {
		for _, l := range loops {
			c, err := newCore(nothing{}, 1<<40, regions, false)
			if err != nil {
				return err
			}
			ns, err := perCall(n, func(i int) error { return use(c, 1<<40+uint64(i%l.buffer)*l.step, 8192) })
			if err != nil {
				return err
			}
			times[l.name] = append(times[l.name], ns)
			r.figure("core", l.name, ns)
		}
	}
	r.say("The cache behind it (Acquire and Release, nothing registered), ns")
	for _, l := range loops {
		r.say("  %-28s %7.0f", l.name, typical(times[l.name]))
	}
	return nil
}

// arena maps memory and touches it.
func arena(bytes int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", bytes, err)
	}
	return b, nil
}

// measureRegister times registering and deregistering by size (B9 of Rashti's
// thesis, section 3.5.1).
func measureRegister(o options, r *report) error {
	const largest = 16 << 20
	b, err := arena(largest)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(b) }()
	m := regcache.NewMlock()
	register, deregister := map[int][]float64{}, map[int][]float64{}
	for range o.repetitions {
		for size := 4 << 10; size <= largest; size *= 4 {
			begin := time.Now()
			h, err := m.Register(regcache.Address(b), uint64(size))
			middle := time.Now()
			if err != nil {
				return fmt.Errorf("%w; a higher ulimit -l is needed", err)
			}
			m.Deregister(h)
			register[size] = append(register[size], float64(middle.Sub(begin).Nanoseconds()))
			deregister[size] = append(deregister[size], float64(time.Since(middle).Nanoseconds()))
			r.figure("register", fmt.Sprintf("%d KiB", size>>10), float64(middle.Sub(begin).Nanoseconds()))
		}
	}
	r.say("Registration by mlock (B9), us, page counts of the stand-in included")
	r.say("  %10s %12s %12s", "KiB", "register", "deregister")
	for size := 4 << 10; size <= largest; size *= 4 {
		r.say("  %10d %12.1f %12.1f", size>>10, typical(register[size])/1e3, typical(deregister[size])/1e3)
	}
	return nil
}

// messages of one repetition of measureReuse.
const messages = 64

// buffers chooses the buffer of message i: reuse is the share of messages whose
// buffer was used before, in percent.
func buffers(reuse, i int) int {
	switch reuse {
	case 0:
		return i
	case 50:
		return i / 2
	}
	return 0
}

// measureReuse times a message that needs its buffer registered: acquire, copy
// (in place of the transfer), release. With the cache, by how many buffers were
// used before (B11); without it (B10).
func measureReuse(o options, r *report) error {
	const largest = 1 << 20
	b, err := arena(messages * largest)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(b) }()
	target := make([]byte, largest)
	r.say("A message from a registered buffer, us: acquire, copy, release (B10, B11; mlock)")
	r.say("  %6s %9s | %9s %9s %9s | %9s | %10s %14s", "KiB", "copy only", "100 %", "50 %", "0 % reuse", "cache off", "off / 100 %", "0 % / 100 %")
	for size := 8 << 10; size <= largest; size *= 2 {
		times := map[string][]float64{}
		for range o.repetitions {
			for _, v := range []struct {
				name  string
				reuse int
				off   bool
			}{{"100", 100, false}, {"50", 50, false}, {"0", 0, false}, {"off", 100, true}} {
				c, err := newCore(regcache.NewMlock(), 1<<40, messages, v.off)
				if err != nil {
					return err
				}
				ns, err := perCall(messages, func(i int) error {
					from := b[buffers(v.reuse, i)*size:][:size]
					region, err := c.Acquire(regcache.Address(from), uint64(size))
					if err != nil {
						return fmt.Errorf("%w; a higher ulimit -l is needed", err)
					}
					copy(target, from)
					return c.Release(region)
				})
				if err != nil {
					return err
				}
				if err := c.Close(); err != nil {
					return err
				}
				times[v.name] = append(times[v.name], ns)
				r.figure("reuse", fmt.Sprintf("%d KiB, %s", size>>10, v.name), ns)
			}
			ns, _ := perCall(messages, func(int) error { copy(target, b[:size]); return nil })
			times["copy"] = append(times["copy"], ns)
		}
		us := func(name string) float64 { return typical(times[name]) / 1e3 }
		r.say("  %6d %9.2f | %9.2f %9.2f %9.2f | %9.2f | %10.2f %14.2f", size>>10, us("copy"), us("100"), us("50"), us("0"),
			us("off"), us("off")/us("100"), us("0")/us("100"))
	}
	return nil
}
