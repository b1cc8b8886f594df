package regcache

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mlock is a Registrar without a device: it pins by mlock. It stands in for one
// in tests and benchmarks, at about the cost of pinning alone. mlock does not
// nest, so it counts the pins of each page and unlocks at the last one.
type Mlock struct {
	page   uint64
	pins   map[uint64]int // page number → registrations
	ranges map[uint64][2]uint64
	next   uint64
}

// NewMlock makes a registrar for this process's memory.
func NewMlock() *Mlock {
	return &Mlock{page: uint64(os.Getpagesize()), pins: map[uint64]int{}, ranges: map[uint64][2]uint64{}}
}

// Register locks the pages, also those locked before: other memory may lie at
// their addresses by now.
func (m *Mlock) Register(addr, length uint64) (Handle, error) {
	if _, _, errno := unix.Syscall(unix.SYS_MLOCK, uintptr(addr), uintptr(length), 0); errno != 0 {
		m.unlock(addr, addr+length) // what was locked before the error
		return Handle{}, fmt.Errorf("mlock of %d bytes: %w", length, errno)
	}
	m.next++
	m.ranges[m.next] = [2]uint64{addr, addr + length}
	for p := addr / m.page; p < (addr+length)/m.page; p++ {
		m.pins[p]++
	}
	return Handle{ID: m.next}, nil
}

// Deregister unlocks the pages that no other registration has.
func (m *Mlock) Deregister(h Handle) {
	r, ok := m.ranges[h.ID]
	if !ok {
		return
	}
	delete(m.ranges, h.ID)
	for p := r[0] / m.page; p < r[1]/m.page; p++ {
		if m.pins[p]--; m.pins[p] == 0 {
			delete(m.pins, p)
		}
	}
	m.unlock(r[0], r[1])
}

// unlock unlocks the pages of [start, end) without pins, run by run. Pages that
// are unmapped by now fail, and need no unlocking.
func (m *Mlock) unlock(start, end uint64) {
	from := start
	for at := start; at <= end; at += m.page {
		if at < end && m.pins[at/m.page] == 0 {
			continue
		}
		if at > from {
			_, _, _ = unix.Syscall(unix.SYS_MUNLOCK, uintptr(from), uintptr(at-from), 0)
		}
		from = at + m.page
	}
}

// Address is where a slice's memory starts.
func Address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
