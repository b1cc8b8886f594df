package memmon

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// program is the kernel program with its maps. Only open and release, of
// different slots, may be called at the same time as others.
type program struct {
	maps         map[string]*ebpf.Map
	processes    int
	ring         bool          // requests of io_uring are seen
	copiesPinned bool          // what copiesPinned says of the kernel
	slot         *ebpf.MapSpec // generations of one process

	// empty while nobody is watched
	code     *ebpf.Collection
	attached []link.Link
}

// load makes the maps, for at most so many processes at once, and finds out
// whether the kernel accepts the program and will run it.
func load(processes int) (*program, error) {
	if err := checkPreemption(); err != nil {
		return nil, err
	}
	if err := mountTracefs(); err != nil {
		return nil, err
	}
	var name unix.Utsname
	copies := unix.Uname(&name) != nil || copiesPinned(unix.ByteSliceToString(name.Release[:]))
	p, err := loadWith(processes, true, copies)
	if errors.Is(err, btf.ErrNotFound) || errors.Is(err, ebpf.ErrNotSupported) {
		// before Linux 6.4 there is no such tracepoint
		p, err = loadWith(processes, false, copies)
	}
	return p, err
}

func loadWith(processes int, ring, copiesPinned bool) (*program, error) {
	p := &program{maps: map[string]*ebpf.Map{}, processes: processes, ring: ring, copiesPinned: copiesPinned}
	if err := p.attach(); err != nil {
		return nil, err
	}
	for _, name := range []string{kernelMapSlots, kernelMapWatched, kernelMapPending, kernelMapOwners} {
		p.maps[name] = p.code.DetachMap(name)
	}
	p.detach()
	return p, nil
}

// install puts the code into the kernel, with the maps that there are already.
// Each attachment is of code of its own: as long as a process holds an earlier
// one, the kernel would refuse to attach the same code again.
func (p *program) install() error {
	spec, err := loadKernel()
	if err != nil {
		return fmt.Errorf("memory monitor: %w", err)
	}
	for _, m := range []string{kernelMapSlots, kernelMapWatched, kernelMapPending, kernelMapOwners} {
		spec.Maps[m].MaxEntries = uint32(p.processes)
	}
	p.slot = spec.Maps[kernelMapSlots].InnerMap.Copy()
	if !p.ring {
		for _, name := range ringPrograms {
			delete(spec.Programs, name)
		}
		if err := spec.Variables[kernelVarRingIsNotSeen].Set(true); err != nil {
			return fmt.Errorf("memory monitor: %w", err)
		}
	}
	p.code, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: p.maps})
	if err != nil {
		return explain(err)
	}
	return nil
}

// close lets go of the program; processes that are watched keep it alive.
func (p *program) close() {
	p.detach()
	for _, m := range p.maps {
		m.Close()
	}
}

// open prepares a slot for the process that will present the token, and
// returns its generations. After an error the slot wants to be released.
func (p *program) open(slot uint32, token uint64) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(p.slot)
	if err != nil {
		return nil, explain(err)
	}
	err = p.maps[kernelMapSlots].Put(slot, m)
	if err == nil {
		err = p.maps[kernelMapPending].Put(token, slot)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("memory monitor: slot %d: %w", slot, err)
	}
	return m, nil
}

// release makes a slot free for another process. The order matters: once the
// token is gone, and the kernel has waited for running programs, as it does
// when it takes a map out of a map, nobody can get attached to the slot any
// more, and what owners says is final.
func (p *program) release(slot uint32, token uint64) error {
	err := missingIsFine(p.maps[kernelMapPending].Delete(token))
	err = errors.Join(err, missingIsFine(p.maps[kernelMapSlots].Delete(slot)))
	var owner kernelOwner
	if e := p.maps[kernelMapOwners].Lookup(slot, &owner); e != nil || owner.AddressSpace == 0 {
		return errors.Join(err, e)
	}
	var holder uint32
	e := p.maps[kernelMapWatched].Lookup(owner.AddressSpace, &holder)
	if e == nil && holder == slot {
		e = p.maps[kernelMapWatched].Delete(owner.AddressSpace)
	}
	return errors.Join(err, missingIsFine(e), p.maps[kernelMapOwners].Put(slot, kernelOwner{}))
}

// missingIsFine: what is to be removed was not there.
func missingIsFine(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}
