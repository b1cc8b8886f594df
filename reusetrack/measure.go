package reusetrack

import (
	"container/list"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"github.com/mpitrace/mpitrace/internal/stats"
	"golang.org/x/sys/unix"
)

// ErrMemlock is wrapped when the kernel refuses to lock memory, so that
// registration cannot be priced here.
var ErrMemlock = errors.New("locking memory is refused")

// MeasureOptions of Measure. The zero value measures what eager messages need
// in about half a second.
type MeasureOptions struct {
	// Budget bounds the run time; at most 1.8 s, 0: 500 ms.
	Budget time.Duration
	// Sizes to measure, in bytes, rising; nil: 64 to 65536 by doubling. At most
	// 32, of 4 MiB at most.
	Sizes []uint64
	// Register is what registration costs, where that is known: it is then not
	// measured, and no memory is locked.
	Register Curve
}

const (
	defaultBudget = 500 * time.Millisecond
	maxBudget     = 1800 * time.Millisecond
	maxMeasured   = 4 << 20  // largest size
	coldBytes     = 64 << 20 // area that cold sources are taken from: more than a core's share of the caches
	lookedUp      = 256      // buffers in the tables while look-ups are timed
	samples       = 3        // at least so many batches per figure, budget or not
	maxSizes      = 32
)

// standIn is what Measure notes about its costs.
var standIn = []string{
	// the first only where registration is measured
	"register and deregister are mlock and munlock of pages already in memory: a network adds its own tables and a system call, often several times as much",
	"look-ups are those of the Go twins; the tables in C are faster",
	"exposed is not measured: it needs two ranks and their network",
}

// Measure prices copies, registration and look-ups on this node: one processor,
// whatever else runs on it. Registration is stood in for by locking memory.
// What it notes is in Notes of the costs.
//
// The error wraps ErrMemlock if not even one size may be locked, which Register makes
// needless; costs of larger sizes than the limit allows are left out, and a note says so.
func Measure(o MeasureOptions) (*Costs, error) {
	if o.Budget <= 0 {
		o.Budget = defaultBudget
	}
	if len(o.Sizes) == 0 {
		for size := uint64(64); size <= 65536; size *= 2 {
			o.Sizes = append(o.Sizes, size)
		}
	}
	if len(o.Sizes) > maxSizes {
		return nil, fmt.Errorf("%w: %d sizes, at most %d are measured", ErrCosts, len(o.Sizes), maxSizes)
	}
	for i, size := range o.Sizes {
		if size == 0 || size > maxMeasured || i > 0 && size <= o.Sizes[i-1] {
			return nil, fmt.Errorf("%w: sizes must rise and be from 1 to %d", ErrCosts, maxMeasured)
		}
	}
	m := meter{each: min(o.Budget, maxBudget) / time.Duration(4*len(o.Sizes)+2), lock: unix.Mlock, unlock: unix.Munlock, register: o.Register}
	area, err := unix.Mmap(-1, 0, coldBytes+maxMeasured, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory to measure with: %w", err)
	}
	defer unix.Munmap(area)
	return m.costs(area, o.Sizes)
}

// meter measures; lock and unlock are replaced in tests.
type meter struct {
	each         time.Duration // for one figure
	lock, unlock func([]byte) error
	register     Curve // known already
}

func (m *meter) costs(area []byte, sizes []uint64) (*Costs, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "this node"
	}
	c := &Costs{Schema: CostsSchema, StandIn: true, Notes: slices.Clone(standIn),
		Source: fmt.Sprintf("measured on %s, %s", host, time.Now().UTC().Format(time.DateOnly))}
	for at := 0; at < len(area); at += pageBytes {
		area[at] = 1 // so that the page exists
	}
	if len(m.register) > 0 {
		c.Register, c.StandIn, c.Notes = m.register, false, c.Notes[1:]
	} else {
		m.registration(c, area, sizes)
		if len(c.Register) == 0 {
			return nil, refused(sizes[0])
		}
		if last := c.Register[len(c.Register)-1].Bytes; last < sizes[len(sizes)-1] {
			c.Notes = append(c.Notes, fmt.Sprintf("more than %d bytes could not be locked (%s): larger sizes are extrapolated", last, limitText()))
		}
	}
	m.copies(c, area, sizes)
	usage, cache := m.lookUps()
	c.UsageLookUp, c.CacheLookUp = Curve{{MinBytes, usage}}, Curve{{MinBytes, cache}}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// refused explains what to do about ErrMemlock.
func refused(bytes uint64) error {
	return fmt.Errorf("%w: not even %d bytes (%s): raise it with 'ulimit -l' or in /etc/security/limits.conf, or give measured costs in a file", ErrMemlock, bytes, limitText())
}

func limitText() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "RLIMIT_MEMLOCK is not known"
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "RLIMIT_MEMLOCK is unlimited"
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK is %d KiB", limit.Cur/1024)
}

// registration locks and unlocks memory of each size until one is refused.
func (m *meter) registration(c *Costs, area []byte, sizes []uint64) {
	for _, size := range sizes {
		var locked, unlocked []float64
		memory := area[:size]
		for end := time.Now().Add(m.each); len(locked) < samples || time.Now().Before(end); {
			t0 := time.Now()
			if m.lock(memory) != nil {
				return
			}
			t1 := time.Now()
			if m.unlock(memory) != nil {
				return
			}
			locked = append(locked, float64(t1.Sub(t0)))
			unlocked = append(unlocked, float64(time.Since(t1)))
		}
		c.Register = append(c.Register, Point{size, stats.Median(locked)})
		c.Deregister = append(c.Deregister, Point{size, stats.Median(unlocked)})
	}
}

// copies fills Copy and CopyCold.
func (m *meter) copies(c *Costs, area []byte, sizes []uint64) {
	target := make([]byte, sizes[len(sizes)-1])
	for _, size := range sizes {
		to := target[:size]
		source := area[:size]
		copy(to, source)
		warm := m.time(max(1, 4096/int(size)), func(int) { copy(to, source) })
		cold := m.coldCopy(area, to)
		c.Copy = append(c.Copy, Point{size, warm})
		c.CopyCold = append(c.CopyCold, Point{size, max(cold, warm)})
	}
}

// coldCopy copies from places all over the area in an order without pattern, so
// that a source was left alone while much else went by.
func (m *meter) coldCopy(area, to []byte) float64 {
	stride := (len(to) + 63) &^ 63
	slots := 1 << (bits.Len(uint(coldBytes/stride)) - 1)
	next := 0
	return m.time(max(1, min(64, 65536/len(to))), func(int) {
		next = (next + 0x9e3779b1) & (slots - 1) // odd: comes by every slot
		copy(to, area[next*stride:])
	})
}

// lookUps prices the usage table and the registration cache, both holding
// lookedUp buffers that are asked for in no particular order.
func (m *meter) lookUps() (usage, cache float64) {
	var table Table
	registered := lru{entries: map[uint64]*list.Element{}}
	addresses := make([]uint64, lookedUp)
	for i := range addresses {
		addresses[i] = 0x7f00_0000_0000 + uint64(i*167%lookedUp)*4160
		table.Access(Access{Address: addresses[i], Bytes: MinBytes})
		registered.entries[addresses[i]] = registered.order.PushFront(addresses[i])
	}
	usage = m.time(lookedUp, func(i int) { table.Access(Access{Address: addresses[i], Bytes: MinBytes}) })
	cache = m.time(lookedUp, func(i int) { registered.touch(addresses[i]) })
	return usage, cache
}

// lru is a registration cache as far as looking up goes.
type lru struct {
	order   list.List
	entries map[uint64]*list.Element
}

func (l *lru) touch(address uint64) {
	if e, ok := l.entries[address]; ok {
		l.order.MoveToFront(e)
	}
}

// time is the ns of one run of f: the median over batches of n runs.
func (m *meter) time(n int, f func(i int)) float64 {
	var all []float64
	for end := time.Now().Add(m.each); len(all) < samples || time.Now().Before(end); {
		begin := time.Now()
		for i := range n {
			f(i)
		}
		all = append(all, float64(time.Since(begin))/float64(n))
	}
	return stats.Median(all)
}
